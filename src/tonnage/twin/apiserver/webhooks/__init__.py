"""Mutating and validating webhooks: whom to ask, what is asked, and what the answers mean."""
