"""The twin's scheduler: queue, cache, binding; which node it is `decide.kubernetes.scheduler` says."""
