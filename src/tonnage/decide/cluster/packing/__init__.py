"""How a stream of GPU jobs is packed onto a fleet by one policy or another, in thousandths of a GPU."""
