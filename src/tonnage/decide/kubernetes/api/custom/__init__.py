"""Custom resources: their schemas, rules and values, and never one kind by name."""
