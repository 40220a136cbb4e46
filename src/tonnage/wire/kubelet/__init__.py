"""Kubelet's gRPC protocols: messages made from the `.proto` files here, methods as tables; never a call."""
