"""What Tonnage does to the world, as frozen values that `decide` returns and `loop.performer` performs.

An action says what it is about and which class of retry it is of, and never how it is done.
"""
