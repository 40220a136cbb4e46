"""The words: frozen values, names, units, errors, reasons; no I/O, no clock, no logging, ever."""
