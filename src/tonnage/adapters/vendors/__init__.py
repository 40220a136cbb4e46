"""One vendor's modules begin with its name: they state facts, perform steps, and never use another's."""
