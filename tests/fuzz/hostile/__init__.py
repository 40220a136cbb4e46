"""Inputs made to be costly, by format: they look small and stand for much, nest, repeat, or never end.

Each family makes inputs of about `size` parts.
"""
