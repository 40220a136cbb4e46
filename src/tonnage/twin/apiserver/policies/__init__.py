"""Admission policies over requests: what expressions see there; CEL itself is never done here."""
