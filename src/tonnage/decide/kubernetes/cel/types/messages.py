"""The message types that Kubernetes' CEL knows, for the library."""

from __future__ import annotations

from functools import cache
from typing import Final, Protocol, cast

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    message,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

_WELL_KNOWN: Final = (any_pb2, struct_pb2, wrappers_pb2, duration_pb2, timestamp_pb2, empty_pb2)
_KINDS: Final = {
    "kubernetes": ("Quantity", "Semver", "URL", "NamedFormat"),
    "net": ("IP", "CIDR"),
    "kubernetes.authorization": ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision"),
}
OWN_FILES: Final = tuple(f"{package}.proto" for package in _KINDS)
_FIELDS: Final = {"Quantity": "value"}
"""What holds a value's text, where that is not `text`."""


@cache
def _files(*, named: bool) -> tuple[bytes, ...]:
    made = []
    for package, kinds in _KINDS.items():
        file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        for name in kinds:
            kind = file.message_type.add(name=name)
            if named:
                kind.field.add(name=_FIELDS.get(name, "text"), number=1, type=9, label=1)
        made.append(file.SerializeToString())
    return tuple(made)


def declared_pool(file: bytes) -> descriptor_pool.DescriptorPool:
    """The types that expressions are compiled with: what Kubernetes' own hold nobody may name."""
    return _pool(*_files(named=False), file)


@cache
def held_pool() -> descriptor_pool.DescriptorPool:
    """The types that values are of."""
    return _pool(*_files(named=True))


def _pool(*files: bytes) -> descriptor_pool.DescriptorPool:
    made = descriptor_pool.DescriptorPool()
    for module in _WELL_KNOWN:
        made.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in files:
        made.AddSerializedFile(file)
    return made


@cache
def _class(name: str) -> type[message.Message]:
    return message_factory.GetMessageClass(held_pool().FindMessageTypeByName(name))


class TextMessage(Protocol):
    """A value of a kind that has a text and nothing else."""

    text: str


def value_of(kind: str, text: str) -> TextMessage:
    """A value of such a kind."""
    return cast("TextMessage", _class(kind)(text=text))
