"""Rules about what the API server and quotas make of a pod: one file each; none knows another."""
