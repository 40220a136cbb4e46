"""Answers for people: why a pod is where it is, and what to do."""
