"""Which container runtime answers, and its version, in the words of Kubernetes' container runtime interface.

Source: k8s.io/cri-api runtime/v1, `RuntimeService.Version`: fields 2 and 3 of its answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.adapters.node_facts.files import NodeFiles

_METHOD: Final = "/runtime.v1.RuntimeService/Version"
_WAIT_S: Final = 1.5
_NAME, _VERSION = 2, 3
_SOCKET_BYTES: Final = 107


async def runtime_version(files: NodeFiles, sockets: Iterable[str]) -> tuple[str, str]:
    """(name, version) of the first that answers; both empty if none does."""
    import grpc
    import grpc.aio

    for path in sockets:
        place = files.place(path)
        if place is None or len(str(place).encode()) > _SOCKET_BYTES:
            continue
        options = (("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", 65536))
        async with grpc.aio.insecure_channel(f"unix:{place}", options=options) as channel:
            try:
                call = channel.unary_unary(_METHOD, bytes, bytes)
                answer = await call(b"", timeout=_WAIT_S)
            except grpc.aio.AioRpcError:
                continue
        fields = text_fields(answer)
        return fields.get(_NAME, "")[:100], fields.get(_VERSION, "")[:100].removeprefix("v")
    return "", ""


def text_fields(message: bytes) -> dict[int, str]:
    """Texts by number of field of a message that has nothing else.

    >>> text_fields(b"\\x12\\x02ab\\x1a\\x01c")
    {2: 'ab', 3: 'c'}
    """
    fields: dict[int, str] = {}
    at = 0
    while at + 1 < len(message) and message[at] & 7 == 2 and message[at + 1] < 128:
        end = at + 2 + message[at + 1]
        fields[message[at] >> 3] = message[at + 2 : end].decode("utf-8", "replace")
        at = end
    return fields
