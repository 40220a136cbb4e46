"""Admission as a genuine API server has it: every case of tests/data/admission is answered alike.

`python -m scripts.record_admission_answers` asks a genuine server again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

import pytest

from support.admission_cases import ANSWERS, Case, Step, cases, filled, told
from support.api_stores import new_store
from support.webhook_server import webhooks
from tonnage.adapters.clock import SystemClock
from tonnage.model.errors import ApiError
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.requests import RequestNotes
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.serving import parameters
from tonnage.twin.apiserver.statuses import status_of

RECORDED = json.loads(ANSWERS.read_text())
CASES = list(cases())


@pytest.fixture(scope="module")
def values() -> Iterator[dict[str, str]]:
    with webhooks() as found:
        yield found


class Twin:
    """The twin's verbs behind paths, as its HTTP face has them, without sockets."""

    def __init__(self) -> None:
        self._verbs = ApiServer(SystemClock(), store=new_store()).verbs

    async def send(self, step: Step) -> tuple[int, Any, list[str]]:
        notes = RequestNotes()
        try:
            code, answer = await self._sent(step, notes)
        except ApiError as error:
            return error.code, status_of(error), list(notes.warnings)
        return code, answer, list(notes.warnings)

    async def _sent(self, step: Step, notes: RequestNotes) -> tuple[int, Any]:
        path, _, query_text = step.path.partition("?")
        query = dict(parse_qsl(query_text))
        address = parameters.address_of(path.split("/")[1:])
        assert address is not None
        body = json.loads(json.dumps(step.body))
        options = parameters.write_options(query)
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
        request = self._verbs.request(verb[step.method], address, options=options, notes=notes)
        match step.method:
            case "POST" if address.subresource:
                return 201, await self._verbs.create_subresource(request, body)
            case "POST":
                outcome = await self._verbs.create(request, body)
                return 201, outcome.object
            case "PUT":
                outcome = await self._verbs.update(request, body)
                return 200, outcome.object
            case "PATCH" if step.content_type == "application/apply-patch+yaml":
                outcome, _ = await self._verbs.apply(request, body, force=query.get("force") == "true")
                return 200, outcome.object
            case "PATCH":
                outcome = await self._verbs.patch(request, PatchType(step.content_type), body)
                return 200, outcome.object
            case "DELETE":
                deletion, _ = parameters.delete_options(self._verbs.registry.schema, query, body)
                return 200, await self._verbs.delete(request, deletion)
            case _:
                return 200, await self._verbs.get(request)

    async def play(self, case: Case, values: Mapping[str, str]) -> list[dict[str, Any]]:
        metadata = {"name": case.id, "labels": dict(case.labels)}
        await self.send(Step("POST", "/api/v1/namespaces", {"metadata": metadata}, "", (), 0))
        return [told(*await self.send(step), step, values) for step in case.steps]


@pytest.mark.sampled("recorded cases of admission")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
async def test_a_case_is_answered_as_a_genuine_server_answers_it(case: Case, values: dict[str, str]) -> None:
    """ADM-9, ADM-10 and whatever else admission says."""
    assert await Twin().play(filled(case, values), values) == RECORDED[case.id]


def test_every_recorded_answer_is_asked_for() -> None:
    assert {case.id for case in CASES} == set(RECORDED)
