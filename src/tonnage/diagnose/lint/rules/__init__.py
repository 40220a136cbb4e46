"""The rules of lint, a family a file."""
