"""Clustering of file groups."""
