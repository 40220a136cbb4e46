"""What one node does with its devices: share, advertise, allocate, inject; never the doing of it."""
