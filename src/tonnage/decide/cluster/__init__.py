"""What Kubernetes will do with a pod: filters, scores, preemption, kubelet admission."""
