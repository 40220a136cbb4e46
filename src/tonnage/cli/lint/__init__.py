"""`tonnage lint`: reads files, shows findings and writes fixes, and never has a rule of its own."""
