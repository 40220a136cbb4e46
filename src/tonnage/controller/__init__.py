"""The cluster controller: one folder per function, one file per loop; `main` alone knows the real world."""
