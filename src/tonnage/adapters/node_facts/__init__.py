"""Facts about a node for `tonnage doctor`, out of files below a root; nothing is changed there."""
