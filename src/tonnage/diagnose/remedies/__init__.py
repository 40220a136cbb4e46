"""What to do about a pod that waits: edits, labels, patches, as values that are never applied here."""
