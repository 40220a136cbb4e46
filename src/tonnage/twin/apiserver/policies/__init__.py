"""Admission policies in CEL: what they look at, and what comes of it."""
