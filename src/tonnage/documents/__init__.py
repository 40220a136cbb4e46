"""User documents: text to model values, every problem at once with its place; never a file read."""
