"""Pages that a program makes anew for each request: a probe's answer, a text."""

from __future__ import annotations

from collections.abc import Callable

from tonnage.adapters.http.server import HttpRequest, Response, Route, lines


def probe_page(problems: Callable[[], tuple[str, ...]]) -> Route:
    """`ok`, or status 503 and what is wrong, a line each."""

    async def answer(_: HttpRequest) -> Response:
        wrong = problems()
        return lines(503, *wrong) if wrong else lines(200, "ok")

    return Route(answer)


def text_page(text: Callable[[], str], content_type: str) -> Route:
    """The text as it is then."""

    async def answer(_: HttpRequest) -> Response:
        return Response(200, text().encode(), content_type)

    return Route(answer)
