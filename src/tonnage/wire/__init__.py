"""What travels: kubelet's protobuf messages, Kubernetes objects, the schema tables of built-in kinds."""
