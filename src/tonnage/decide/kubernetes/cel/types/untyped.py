"""What nobody has types for, by name: the CEL library's objects, and messages of classes made at run time."""

from __future__ import annotations

from typing import Any, TypeAlias

TreeNode: TypeAlias = Any  # a message of the compiled tree: its class is made when the tree is first read
LibraryObject: TypeAlias = Any  # an environment, a program, a type or a value: the library has no types
