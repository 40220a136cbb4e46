"""`tonnage operator`: what a ClusterPolicy comes to on each node."""
