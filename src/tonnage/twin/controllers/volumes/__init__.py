"""Volumes: which claim gets which, and what is kept while in use; no data is ever here."""
