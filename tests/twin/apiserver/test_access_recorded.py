"""Who may do what, as a genuine Kubernetes 1.35.8 was recorded to answer (scripts/record_access.py)."""

from __future__ import annotations

import json

from support.access_requests import Asker, recorded, scenes, title
from twin.apiserver.conftest import Running


async def test_every_request_is_answered_as_by_the_genuine_server(running: Running) -> None:
    async def send(method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, bytes]:
        answer = await running.http(method, path, body, token=None, pairs=headers)
        return answer.code, answer.out.encode()

    asker = Asker(send, running.http.token)
    wrong = []
    for scene in scenes():
        for request, (recorded_request, code, body) in zip(
            scene.requests, recorded()[scene.name], strict=True
        ):
            assert request == recorded_request, "record again: python scripts/record_access.py"
            found = await asker.ask(request)
            if found != (code, body):
                wrong.append((f"{scene.name}: {title(request)}", (code, body), found))
    for what, genuine, found in wrong:
        print(what, "\n  genuine", json.dumps(genuine), "\n  twin   ", json.dumps(found))
    assert [what for what, *_ in wrong] == []
