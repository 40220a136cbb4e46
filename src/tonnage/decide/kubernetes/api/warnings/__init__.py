"""Warnings that go with an answer, by kind; they never refuse anything."""
