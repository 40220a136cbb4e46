"""What pods get by claims on a genuine node. A package, so that its modules share one agent."""
