"""What the API server refuses of a pod's spec wherever it is written; never what a node makes of the pod."""
