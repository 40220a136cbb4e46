"""Nodes: what silence and taints do to them and to their pods; a node is never deleted here."""
