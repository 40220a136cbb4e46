"""The pretended world: a whole GPU cluster in one process, under the same ports as the real one."""
