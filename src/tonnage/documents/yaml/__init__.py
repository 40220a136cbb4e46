"""YAML to values of a type, every problem at once with its place; never a word of what is configured."""
