"""What the server does to pods alone: birth, eviction, statuses; pods are never run here."""
