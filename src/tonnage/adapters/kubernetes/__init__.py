"""The real Kubernetes API: credentials, transport and client, and never a policy."""
