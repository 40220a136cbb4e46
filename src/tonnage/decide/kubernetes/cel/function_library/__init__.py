"""The functions of Kubernetes' CEL: declared, and as they run, without a clock or a network."""
