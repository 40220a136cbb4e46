"""The pretended world: a whole GPU cluster in one process, under the ports and never above them."""
