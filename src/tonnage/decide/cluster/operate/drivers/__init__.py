"""Which driver each node gets, what stands against it, and how drivers are upgraded node by node."""
