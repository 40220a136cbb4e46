"""The kubelet of the twin: real protocols on real sockets over a pretended container runtime."""
