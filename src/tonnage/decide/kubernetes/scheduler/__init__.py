"""What the scheduler decides about a pod: nodes, ratings, preemption; it never binds one."""
