"""Facts about a node for `tonnage doctor`: read below a root, and never changed or judged."""
