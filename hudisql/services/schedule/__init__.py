"""Decides which services are due, and runs them."""
