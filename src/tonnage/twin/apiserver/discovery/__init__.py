"""What the server says about itself: groups, OpenAPI, health, metrics; never about objects."""
