"""What would be: a cluster with other nodes or workloads, compared; the real one is never touched."""
