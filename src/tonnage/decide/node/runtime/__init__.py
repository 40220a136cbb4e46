"""How a container runtime has to be configured; its files are never read or written here."""
