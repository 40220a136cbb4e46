"""What the API server says to a pod before it exists: accounts, classes, limits, security, quotas."""
