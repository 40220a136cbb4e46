"""Captured clusters: what is taken of one, how it is redacted, written and read back."""
