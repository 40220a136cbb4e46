"""Pods that have a node: what kubelet, runtime, driver and neighbours do to them; never a placement."""
