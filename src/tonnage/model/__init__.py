"""The words: nouns, units, names and errors. No I/O, no clock, no logging."""
