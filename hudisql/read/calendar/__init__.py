"""Dates and timestamps of the hybrid calendar and of legacy time zones."""
