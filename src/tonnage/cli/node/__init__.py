"""`tonnage node`: turns flags into the agent's options, and never does the agent's work."""
