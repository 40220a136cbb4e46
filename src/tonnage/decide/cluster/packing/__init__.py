"""How a stream of GPU jobs is packed by one policy or another, never by chance."""
