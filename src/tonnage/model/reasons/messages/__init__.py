"""Reasons that components' own messages stand for; each a frozen class."""
