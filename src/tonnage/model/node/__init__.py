"""What a node is below Kubernetes: hardware, software, runtimes, its agent's status; never an object."""
