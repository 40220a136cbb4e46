"""What the API server does to objects, as pure functions: decode, default, validate, patch, select."""
