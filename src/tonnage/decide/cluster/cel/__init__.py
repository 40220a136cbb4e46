"""CEL as Kubernetes' API server takes it: types of what is known, functions, costs."""
