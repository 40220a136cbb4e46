"""The driver for ResourceClaims: serves kubelet and publishes; what is published is never decided here."""
