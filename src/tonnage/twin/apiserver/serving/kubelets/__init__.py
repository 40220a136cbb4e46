"""Logs, exec and attach passed on to a node's kubelet; nothing of them is kept here."""
