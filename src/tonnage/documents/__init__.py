"""User documents: text to model values, every problem at once with line and path."""
