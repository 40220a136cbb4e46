"""Why a pod is where it is: one reason per node and layer, as values; text comes last."""
