"""What the operator decides from a ClusterPolicy and the nodes: labels, configuration, status."""
