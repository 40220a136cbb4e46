"""Rules about services, network policies and addresses; never an address given out."""
