"""What Tonnage decides for a cluster, such as packing, and never what Kubernetes decides."""
