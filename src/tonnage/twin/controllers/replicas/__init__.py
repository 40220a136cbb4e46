"""ReplicaSets: as many pods as are wanted, and never another's."""
