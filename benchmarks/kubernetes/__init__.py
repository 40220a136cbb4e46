"""Figures that need a genuine Kubernetes: `make bench-kubernetes`."""
