"""The node agent: one file per loop, `main` wires them to a node."""
