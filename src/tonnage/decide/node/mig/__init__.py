"""Which MIG layouts there are and by what steps one becomes another; no step is ever taken here."""
