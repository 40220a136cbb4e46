"""Kubelet's device, CPU and claim managers on real sockets; what they decide is `decide.kubernetes`'s."""
