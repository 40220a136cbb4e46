"""Decisions: values in, values out, with no clock, no file, no network, no chance and no log."""
