"""How a node's devices are linked, and where its sources contradict each other; never a guess."""
