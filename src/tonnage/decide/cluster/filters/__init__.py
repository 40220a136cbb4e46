"""Filters, one file each, in the order of `order.FILTERS`: each refuses nodes, with reasons as values."""
