"""What CDI specs hold and which are valid; specs are never read or written here."""
