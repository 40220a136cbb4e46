"""Resource claims: which devices they would get on a node, and why not. `allocating` is the entrance."""
