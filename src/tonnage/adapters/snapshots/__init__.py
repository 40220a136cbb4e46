"""Captured clusters: taken, redacted, written and read back, and never judged."""
