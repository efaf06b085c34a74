"""Encodings of numbers, bytes and text that several formats use."""
