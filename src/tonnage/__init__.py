"""Tonnage is a GPU platform for Kubernetes; its rooms import downwards, and never up."""

__version__ = "0.1.0"
