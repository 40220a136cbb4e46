"""Resource claims: which devices they get on a node and why not, and never the writing of it."""
