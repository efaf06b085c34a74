"""What the active and archived timelines of a table say."""
