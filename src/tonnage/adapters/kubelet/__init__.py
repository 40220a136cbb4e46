"""Kubelet's sockets and files on the real node; what a device is worth is never decided here."""
