"""Scores: one file each, in the order of `order.SCORES`. A score rates the nodes that are left, 0 to 100."""
