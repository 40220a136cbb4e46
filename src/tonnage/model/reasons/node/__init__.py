"""The reasons that only doctor gives, a module for each layer of a node."""
