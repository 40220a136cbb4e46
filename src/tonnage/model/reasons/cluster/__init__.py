"""Reasons of what Tonnage does for a whole cluster: why a policy or an adoption is not followed."""
