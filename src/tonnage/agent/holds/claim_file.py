"""Claims that were prepared, as they are kept on disk: noted before anything is done for one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tonnage.model.devices.claims import PreparedClaim
from tonnage.wire.decode import decoded_json

VERSION: Final = 1


class _Version(msgspec.Struct, frozen=True):
    """All that is read of a file before its version is known."""

    version: int


class _File(msgspec.Struct, frozen=True):
    version: int
    claims: tuple[PreparedClaim, ...]


def claims_bytes(claims: Iterable[PreparedClaim]) -> bytes:
    """What `claims_in` takes."""
    return msgspec.json.encode(_File(VERSION, tuple(claims)))


def claims_in(payload: bytes) -> tuple[PreparedClaim, ...]:
    """The claims of a file. Fields that a later version adds are overlooked.

    Raises:
        ValueError: it makes no sense, or is of a version that this one cannot read.
    """
    try:
        version = decoded_json(payload, _Version).version
        if version != VERSION:
            raise ValueError(f"the file is of version {version}, and this program reads version {VERSION}")
        file: _File = decoded_json(payload, _File)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return file.claims
