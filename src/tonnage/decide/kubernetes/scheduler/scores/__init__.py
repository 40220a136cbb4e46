"""Scores: one file each, in the order of `order.SCORES`, and never one that knows another."""
