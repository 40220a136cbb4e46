"""Deployments: which ReplicaSets they have, of what size; they never touch pods."""
