"""What kubelet decides about a pod: admission, devices, CPUs, memory; it never starts one."""
