"""What an API server answers: pages, watch events and refusals, decoded as far as they are needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, Generic, TypeVar

import msgspec

from tonnage.model.errors import ApiError, ClusterError, GoneError, Problem
from tonnage.reading.null_fields import without_nulls
from tonnage.wire.decode import UNDECODABLE, without_depths
from tonnage.wire.objects import Object

T = TypeVar("T", bound=Object)

_LONGEST_LINE: Final = 64 << 20


class ListMeta(msgspec.Struct, rename="camel"):
    """Where a list stands, and where its next page starts (empty: it was the last)."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class AnswerPage(msgspec.Struct, Generic[T]):
    """A page of a list."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[T] | None = None


class RawPage(msgspec.Struct):
    """A page of a list, its objects as they are."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class WatchLine(msgspec.Struct):
    """One line of a watch; what `object` is depends on the type."""

    type: str
    object: msgspec.Raw


class Status(msgspec.Struct):
    """The server's refusal."""

    code: int = 0
    reason: str = ""
    message: str = ""
    metadata: ListMeta | None = None


EVENT: Final = msgspec.json.Decoder(WatchLine)
STATUS: Final = msgspec.json.Decoder(Status)
RAW_PAGE: Final = msgspec.json.Decoder(RawPage)


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Lines by newline alone: JSON text may hold other characters that a text decoder takes for line ends."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > _LONGEST_LINE:
            raise ClusterError(Problem(f"a watch event is longer than {_LONGEST_LINE} bytes"))
    if rest.strip():
        yield rest


def decoded(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    """What the decoder makes of an answer, without what is nested too deeply to be read.

    Raises ClusterError when it is no such thing.
    """
    try:
        try:
            return _decoded(decoder, content)
        except RecursionError:
            return _decoded(decoder, without_depths(content))
    except UNDECODABLE as error:
        raise unreadable(error) from None


def _decoded(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    try:
        return decoder.decode(content)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(msgspec.json.decode(content)), decoder.type)


def unreadable(error: Exception) -> ClusterError:
    """An answer that is not what it should be."""
    return ClusterError(
        Problem(
            "the API server's answer cannot be read",
            why=str(error),
            remedy="check that the kubeconfig's `server` is an API server, not a proxy",
        )
    )


def refusal(code: int, content: bytes) -> ApiError:
    """The error of an answer with an HTTP code of 400 or more, whether its body is a Status or not."""
    try:
        status = STATUS.decode(content)
    except UNDECODABLE:
        status = Status()
    if not status.message:
        text = content.decode(errors="replace").strip()[:1000]
        status = Status(code, _REASONS.get(code, "Unknown"), text or f"the server answered {code}")
    return error_of(code, status)


def error_of(code: int, status: Status) -> ApiError:
    """The error that a Status means."""
    if code == 410:
        resume = status.metadata.continue_ if status.metadata else ""
        return GoneError(status.message or "too old resource version", resume)
    return ApiError(code, status.reason or _REASONS.get(code, "Unknown"), status.message)


_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
