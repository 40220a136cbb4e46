"""Bad requests get a genuine server's status codes and words, and leave the server as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.bad_requests import MAP_TO_PATCH, REQUESTS, BadRequest, answer_to
from support.odd_requests import requests

DATA = Path(__file__).parents[3] / "data"
RECORDED = json.loads((DATA / "bad-requests.json").read_text(encoding="utf-8"))
OTHERWISE = {
    "an encoded climb": [200, "", "ConfigMapList"],  # a namespace of that name is empty, as any other
    "a bad escape": [404, "NotFound", 'configmaps "%zz" not found'],  # read as it stands
}
"""What differs, each for the reason beside it."""


@pytest.mark.sampled("recorded bad requests")
@pytest.mark.parametrize("request_", REQUESTS, ids=[one.name for one in REQUESTS])
async def test_a_bad_request_is_answered_as_a_genuine_server_answers(
    running: Any, request_: BadRequest
) -> None:
    http = running.http
    await answer_to(MAP_TO_PATCH, http.port, http.token, http.context)
    got = await answer_to(request_, http.port, http.token, http.context)
    assert got == OTHERWISE.get(request_.name, RECORDED[request_.name])
    assert (await http("GET", "/healthz")).out == "ok"


async def test_odd_requests_are_answered_as_a_genuine_server_answers(running: Any) -> None:
    recorded = json.loads((DATA / "odd-requests.json").read_text(encoding="utf-8"))
    http, wrong = running.http, []
    for request in requests():  # each sees what those before it made
        got = await answer_to(request, http.port, http.token, http.context)
        if got != recorded[request.name]:
            wrong.append((request.name, recorded[request.name], got))
    assert wrong == []


def test_every_difference_is_one() -> None:
    assert set(OTHERWISE) <= set(RECORDED)
    assert not [name for name, answer in OTHERWISE.items() if answer == RECORDED[name]]
