"""Instants, timelines and the metadata of commits."""
