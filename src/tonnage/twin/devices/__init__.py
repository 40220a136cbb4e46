"""Pretended devices out of hardware files and the catalogue, under the real ports; never a real one."""
