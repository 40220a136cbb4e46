"""What a kubelet does about claims for devices: drivers, prepared claims, and what it remembers."""
