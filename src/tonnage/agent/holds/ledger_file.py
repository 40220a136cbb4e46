"""The ledger as it is kept on disk, where every answer is noted before it is given."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tonnage.decide.node.ledger import IdOwner, Ledger, LedgerEntry
from tonnage.model.devices.sharing import HoldKind
from tonnage.wire.decode import decoded_json


class _Row(msgspec.Struct, frozen=True):
    """One entry; the owner's fields count only within the boot. `container` is for earlier versions.

    A row without `kind` is a device plugin's.
    """

    resource: str
    id: str
    seen: bool
    boot: str = ""
    kubelet: str = ""
    uid: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""
    containers: tuple[str, ...] = ()
    forgotten: bool = False
    kind: HoldKind | msgspec.UnsetType = msgspec.UNSET


def ledger_bytes(entries: Iterable[LedgerEntry], boot: str) -> bytes:
    """What `ledger_of` takes, in one line."""
    return msgspec.json.encode(
        [
            _Row(
                entry.resource,
                entry.id,
                entry.listed,
                boot,
                entry.owner.kubelet,
                entry.owner.uid,
                entry.owner.namespace,
                entry.owner.pod,
                container=entry.owner.containers[0] if len(entry.owner.containers) == 1 else "",
                containers=entry.owner.containers,
                forgotten=entry.forgotten,
                kind=msgspec.UNSET if entry.kind is HoldKind.DEVICE_PLUGIN else entry.kind,
            )
            for entry in entries
        ]
    )


def ledger_of(payload: bytes, boot: str, now: float, added: Iterable[bytes] = ()) -> Ledger:
    """The entries of a file and of the rows added to it, as of now; of an id the last counts.

    Raises ValueError: it makes no sense.

    Of before a boot, nobody can have been forgotten: its containers are over. So are claims of then.
    """
    try:
        rows = decoded_json(payload, list[_Row])
        later = [row for text in added for row in decoded_json(text, list[_Row])]
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    if later:
        rows = list({(row.resource, row.id): row for row in (*rows, *later)}.values())
    return tuple(
        LedgerEntry(
            row.resource,
            row.id,
            0,
            now,
            listed=row.seen,
            owner=_owner(row) if row.boot == boot else IdOwner(),
            forgotten=row.forgotten and row.boot == boot,
            kind=HoldKind.DEVICE_PLUGIN if row.kind is msgspec.UNSET else row.kind,
        )
        for row in rows
        if row.kind is not HoldKind.CLAIM or row.boot == boot
    )


def _owner(row: _Row) -> IdOwner:
    containers = row.containers or ((row.container,) if row.container else ())
    return IdOwner(row.kubelet, row.uid, row.namespace, row.pod, containers)
