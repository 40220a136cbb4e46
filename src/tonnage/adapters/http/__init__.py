"""HTTP that a loop serves: addresses and a small server with bounds, never what it answers."""
