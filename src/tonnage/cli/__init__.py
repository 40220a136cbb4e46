"""The command line: one file per command with its arguments and rendering, and never a decision."""
