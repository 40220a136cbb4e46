"""The operator: NVIDIA's ClusterPolicy on nodes that Tonnage's agents serve."""
