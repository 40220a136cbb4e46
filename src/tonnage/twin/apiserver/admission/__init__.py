"""Admission plugins over the store: they ask `decide.kubernetes.admission`, and never store."""
