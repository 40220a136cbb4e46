"""The real world behind the ports: it reads, writes and asks, and never decides."""
