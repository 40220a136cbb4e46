"""What the cluster controller costs on a large fleet, whose nodes a generator pretends."""
