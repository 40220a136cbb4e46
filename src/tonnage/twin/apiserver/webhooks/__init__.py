"""Webhooks: whom to ask, what is asked and what answers mean; never beyond this machine."""
