"""What one node does with its devices: share, advertise, allocate, inject."""
