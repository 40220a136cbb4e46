"""A cluster as columns: thousands of nodes judged at once, never other than node by node."""
