"""Doctor's layers of Kubernetes: kubelet, plugin, labels, components; judged, never read."""
