"""`tonnage runtime`: arguments and rendering; how a runtime is configured is never decided here."""
