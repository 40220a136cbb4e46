"""Which custom resources are in force, and the status of their definitions; never their rules."""
