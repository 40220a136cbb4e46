"""Why a node is or is not one for a pod, node by node; never what happens once the pod is bound."""
