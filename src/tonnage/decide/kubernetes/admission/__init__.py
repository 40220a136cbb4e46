"""What API server plugins say to a pod before it exists; objects are never stored here."""
