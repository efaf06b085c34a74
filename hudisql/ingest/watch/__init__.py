"""Observers of a worker: metrics, log lines, health checks, states for the group."""
