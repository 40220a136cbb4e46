"""Rules, one file each, in the order of `order`: what they find becomes reasons of an explanation."""
