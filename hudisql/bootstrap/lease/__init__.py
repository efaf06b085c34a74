"""The target directory of a bootstrap: its state, lease and checkpoint files, and the protected sources."""
