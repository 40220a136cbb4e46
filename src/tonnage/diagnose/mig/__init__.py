"""Which MIG layouts would serve, and what changing to them would cost; nothing is ever changed."""
