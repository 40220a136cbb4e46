"""What the API server does to one object: decode, default, validate, patch; never store it."""
