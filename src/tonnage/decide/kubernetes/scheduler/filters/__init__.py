"""Filters: one file each, in the order of `order.FILTERS`, and never one that knows another."""
