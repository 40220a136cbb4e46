"""HTTP that a loop serves: where to listen, and a small server with bounds."""
