"""Reasons that lint alone has against documents; each a frozen class."""
