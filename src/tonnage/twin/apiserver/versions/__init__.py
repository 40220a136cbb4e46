"""Kinds that are served in more than one version, and how one becomes another; never stored twice."""
