"""kubelet's gRPC protocols: messages generated from the `.proto` files here, methods as tables."""
