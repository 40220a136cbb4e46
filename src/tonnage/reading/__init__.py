"""Wire objects to model values, in one direction and in this one place; never I/O."""
