"""Resource quotas: what is used, counted again; what may be used is never decided here."""
