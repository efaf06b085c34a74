"""From changes to written files: index look-up, workload profile, partitioner, tasks, commit."""
