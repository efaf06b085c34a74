"""The directory that becomes the table: its state, lease and checkpoint files; protected sources."""
