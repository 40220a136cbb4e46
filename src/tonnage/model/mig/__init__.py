"""MIG as values: layouts, the GPUs that have them, profiles' names, hooks; never how one becomes another."""
