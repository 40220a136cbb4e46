"""What status says of a fleet beside its rows: troubles, totals, labels that are wrong."""
