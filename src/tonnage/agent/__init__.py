"""The node agent: one folder per function, one file per loop; `main` alone knows the real world."""
