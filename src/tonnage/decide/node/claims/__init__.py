"""The driver for ResourceClaims (DRA): what it publishes, and what a claim's containers get."""
