"""The twin's kubelets: real protocols on real sockets over pretended containers; never a real program."""
