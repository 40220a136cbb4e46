"""Reasons why a pod does not run: of admission, the scheduler and kubelet; each a frozen class."""
