"""Rules of explain: one file each, in the order of `order`, and never one that knows another."""
