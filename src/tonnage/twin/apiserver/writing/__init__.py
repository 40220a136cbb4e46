"""Writes of the API: created, updated, patched, applied, deleted; never who may, nor over what wire."""
