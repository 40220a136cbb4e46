"""Files of a node and what its agent publishes, from text to values; never a file read."""
