"""Cleaning of old file slices."""
