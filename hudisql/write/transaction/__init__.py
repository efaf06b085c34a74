"""The commit protocol: instants, markers, locks, conflicts, heartbeats, rollbacks."""
