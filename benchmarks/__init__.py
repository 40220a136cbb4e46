"""Figures of the README and the issues, each printed by a command: `make bench`."""
