"""Device-plugin configurations, read strictly; what a node makes of one is never decided here."""
