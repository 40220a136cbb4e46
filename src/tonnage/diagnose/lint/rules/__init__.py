"""Rules of lint: one family a file, in the order of `lint.order`, and never one that knows another."""
