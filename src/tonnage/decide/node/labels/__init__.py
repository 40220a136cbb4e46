"""Which labels a node gets; they are never put on it here."""
