"""Sockets, TLS and peers of the server, and the addresses it may call; never a request's meaning."""
