"""Drivers that run as containers: what policies ask for, and the nodes that get one."""
