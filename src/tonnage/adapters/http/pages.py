"""Pages that a program makes anew for each request: a probe's answer, a text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tonnage.adapters.http.server import HttpRequest, Response, Route, lines


def probe_page(problems: Callable[[], tuple[str, ...]]) -> Route:
    """`ok`, or status 503 and what is wrong, a line each."""

    async def answer(_: HttpRequest) -> Response:
        wrong = problems()
        return lines(503, *wrong) if wrong else lines(200, "ok")

    return Route(answer)


async def at_once() -> None:
    """Nothing has to come first."""


def text_page(
    text: Callable[[], str], content_type: str, before: Callable[[], Awaitable[None]] = at_once
) -> Route:
    """The text as it is after `before`."""

    async def answer(_: HttpRequest) -> Response:
        await before()
        return Response(200, text().encode(), content_type)

    return Route(answer)
