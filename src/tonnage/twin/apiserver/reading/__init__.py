"""Lists and watches out of the store, from one version to the next; never a write."""
