"""Kubernetes as values: nodes, pods, claims, and the words they are written in; never a wire object."""
