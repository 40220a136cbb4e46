"""A cluster as columns of numbers: thousands of nodes judged and rated at once."""
