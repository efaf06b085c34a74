"""The hudisql command."""
