"""Reasons: a frozen class for each code, its facts typed fields. Text and JSON are rendered last."""
