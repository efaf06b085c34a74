"""`hudisql services run`: table services of many tables in one process."""
