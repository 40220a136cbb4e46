"""Stands before the h2 of developers: without it the HTTP client loads no HTTP/2, as in the image."""

raise ImportError("h2 is not in the image")
