"""Answers for people, as values: why something is so and what to do; never asked of the world."""
