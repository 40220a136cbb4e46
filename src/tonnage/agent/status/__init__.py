"""What the agent publishes of its node in the cluster, and never what follows from it."""
