"""Services: addresses, endpoints and slices; no packet ever passes here."""
