"""What pods and programs of the node see of the agent's parts, and how they ask for a restart of one."""
