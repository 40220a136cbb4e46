"""Who holds which device, in one ledger that survives the agent's end, and never whether it may be given."""
