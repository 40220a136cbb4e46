"""The command line: one file per command, arguments and rendering only."""
