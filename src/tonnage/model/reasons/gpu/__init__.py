"""Reasons about GPUs: why they are not offered, divided or given; each a frozen class."""
