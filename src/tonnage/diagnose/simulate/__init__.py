"""What would be: a cluster with other nodes or other workloads, compared with the one there is."""
