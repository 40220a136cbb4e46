"""Rules about what keeps a pod from nodes, whatever its devices: one file each; none knows another."""
