"""Labs: steps, their commands and what these may run; nothing is ever run here."""
