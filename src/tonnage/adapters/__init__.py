"""The real world behind ports: kubelet, Kubernetes, devices, files, logs."""
