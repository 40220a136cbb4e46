"""Pretended containers: start, probes, restarts, logs and end; never a process of the machine."""
