"""Paths of files below some folder."""

from __future__ import annotations

from tonnage.decide.kubernetes.api.problems import invalid
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors


def descending_path(target: str, path: str) -> FieldErrors:
    """A relative path that does not climb."""
    if target.startswith("/"):
        yield invalid(path, target, "must be a relative path")
    yield from no_backsteps(target, path)


def no_backsteps(target: str, path: str) -> FieldErrors:
    """A path that does not climb."""
    if ".." in target.split("/"):
        yield invalid(path, target, "must not contain '..'")


def file_path(target: str, path: str) -> FieldErrors:
    """Where a file of a volume lies: below the volume, and not where the kubelet keeps its own."""
    yield from descending_path(target, path)
    if target.startswith("..") and not target.startswith("../"):
        yield invalid(path, target, "must not start with '..'")
