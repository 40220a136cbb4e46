"""What Kubernetes itself would say and do, as pure functions, and never what Tonnage wishes."""
