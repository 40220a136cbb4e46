"""Configurations of kube-scheduler and the names of its plugins; never what a plugin says of a node."""
