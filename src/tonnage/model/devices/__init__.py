"""A node's devices: what they are, how they fare, how they are offered and held; never MIG's layouts."""
