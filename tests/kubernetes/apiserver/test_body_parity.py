"""Random bodies of every kind are taken or refused alike by the twin and a genuine API server (KUB-2).

`TONNAGE_BODIES` says how many of each kind, `TONNAGE_BODIES_FROM` the first seed of the random numbers.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import yaml

from support.apply_scenes import Send, comparable
from support.clients import client_at, client_of, sender, served_twin
from support.genuine import genuine_api_server
from support.leftovers import own_folder
from support.random_bodies import Mutator, Seed, in_namespace, seeds
from support.random_writes import alike
from support.sampling import Sampler
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.decide.kubernetes.api.validate import STATUS

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(chosen_minor(os.environ) != "1.35", reason="the twin says that it is 1.35"),
]
COUNT: Final = int(os.environ.get("TONNAGE_BODIES", "15"))
FIRST: Final = int(os.environ.get("TONNAGE_BODIES_FROM", "0"))
_EXCEPTIONS: Final = Path(__file__).parents[2] / "data" / "body-exceptions.yaml"
_INDEX: Final = re.compile(r"\[\d+\]")
_HEADERS: Final = {"content-type": "application/json", "user-agent": "m/v1 (test)"}
_ATTEMPTS: Final = 3
_ESTABLISHED_S: Final = 60.0
_OVERTAKEN: Final = "the object has been modified"
"""The server's own controllers write to some kinds while they are young."""
Json = Any


async def test_random_bodies_are_answered_alike(sample: Sampler) -> None:
    found: list[str] = []
    numbers = sample.items(
        "kinds of random bodies", range(len(seeds())), key=lambda number: f"{number} {seeds()[number].title}"
    )
    with own_folder() as folder:
        async with (
            genuine_api_server(folder) as kubeconfig,
            client_of(kubeconfig) as genuine,
            served_twin() as endpoint,
            client_at(endpoint) as pretended,
        ):
            sides = (sender(genuine), sender(pretended))
            for number in numbers:
                found += [one async for one in _differences(sides, seeds()[number], f"bodies-{number}")]
    assert not found, f"{len(found)} of {COUNT * len(numbers)} differ:\n" + "\n".join(found)


async def _differences(sides: tuple[Send, Send], seed: Seed, namespace: str) -> AsyncIterator[str]:
    """Each random request about a kind that is not answered alike, as lines."""
    body, folder = in_namespace(seed.body, namespace), seed.folder.replace("{ns}", namespace)
    space = {"metadata": {"name": namespace}}
    for send in sides:
        await _ask(send, "POST", "/api/v1/namespaces", space)
        code, answer = await _ask(send, "POST", folder, body)
        assert code == 201, f"{seed.title}: {answer}"
        if body["kind"] == "CustomResourceDefinition":
            await _established(send, f"{folder}/{body['metadata']['name']}")
    for number in range(FIRST, FIRST + COUNT):
        for _ in range(_ATTEMPTS):
            requests = await _requests(sides, seed, body, folder, number)
            theirs, ours = [
                _told(*await _ask(send, method, f"{where}?dryRun=All", sent))
                for send, (method, where, sent) in zip(sides, requests, strict=True)
            ]
            if _OVERTAKEN not in str(theirs) + str(ours):
                break
        if theirs != ours and not _excepted(seed, theirs, ours):
            method, where, sent = requests[0]
            sent = {key: value for key, value in sent.items() if key != "metadata"}
            yield f"{method} {where} (seed {number}) {json.dumps(sent)}\n  genuine {theirs}\n  twin    {ours}"


async def _established(send: Send, path: str) -> None:
    """Wait for what a genuine server's own part adds to a definition."""
    async with asyncio.timeout(_ESTABLISHED_S):
        while True:
            _, answer = await _ask(send, "GET", path)
            conditions = answer["status"]["conditions"] or ()  # null until its names are looked at
            if any((one["type"], one["status"]) == ("Established", "True") for one in conditions):
                return
            await asyncio.sleep(0.1)


async def _requests(
    sides: tuple[Send, Send], seed: Seed, body: Json, folder: str, number: int
) -> list[tuple[str, str, Json]]:
    """A random request of each side, the same for the same number."""
    mutator, random = Mutator(Random(number)), Random(number)
    path = f"{folder}/{body['metadata']['name']}"
    judged = (seed.row.group, seed.row.kind) in STATUS  # other statuses are stored unread on the twin
    kinds = ["create", "create", "put", *(["status"] if judged else [])]
    match random.choice(kinds):
        case "create":
            fresh = mutator.mutated(body, seed.row)
            fresh["metadata"]["name"] = _other_name(body["metadata"]["name"])
            return [("POST", folder, fresh)] * 2
        case "put":
            return await _edited(sides, path, mutator, seed, status=False)
        case _:
            return await _edited(sides, path, mutator, seed, status=True)


async def _edited(
    sides: tuple[Send, Send], path: str, mutator: Mutator, seed: Seed, *, status: bool
) -> list[tuple[str, str, Json]]:
    """The same change of what each side has."""
    stored = [(await _ask(send, "GET", path))[1] for send in sides]
    changed = mutator.mutated(stored[0], seed.row, status=status)
    where = f"{path}/status" if status else path
    return [("PUT", where, _as_of(changed, stored[0], one)) for one in stored]


def _as_of(changed: Json, first: Json, other: Json) -> Json:
    """What was changed in `first`, changed in `other`, which has times and addresses of its own."""
    if changed == first:
        return other
    if isinstance(changed, dict) and isinstance(first, dict) and isinstance(other, dict):
        return {key: _as_of(value, first.get(key), other.get(key)) for key, value in changed.items()}
    if isinstance(changed, list) and isinstance(first, list) and isinstance(other, list):
        pairs = list(zip(first, other, strict=False))
        # What is not as before is most likely what stood at its place, with a change in it.
        at_its_place = [_as_of(one, *pair) for one, pair in zip(changed, pairs, strict=False)]
        at_its_place += changed[len(at_its_place) :]
        return [
            next((theirs for ours, theirs in pairs if ours == one), here)
            for one, here in zip(changed, at_its_place, strict=True)
        ]
    return changed


async def _ask(send: Send, method: str, path: str, body: Json = None) -> tuple[int, Json]:
    code, answer = await send(method, path, _HEADERS, b"" if body is None else json.dumps(body).encode())
    return code, json.loads(answer)


def _other_name(name: str) -> str:
    """A name that nothing has yet; that of a definition must stay, and so it is taken."""
    return name if "." in name else "fresh"


def _told(code: int, body: Json) -> Json:
    """What an answer comes to: the code and the complaints in any order, or the object."""
    answer = alike(comparable(code, body))
    if not isinstance(answer, list):
        return [answer, {}]
    if "causes" in answer[1].get("details", {}):
        causes = answer[1]["details"]["causes"]
        return [code, sorted(f"{cause['field']}: {cause['message']}" for cause in causes)]
    return answer


def _excepted(seed: Seed, theirs: Json, ours: Json) -> bool:
    """Whether all that differs is listed with its reason."""
    listed = [one["match"] for one in _exceptions() if one["kind"] in ("*", seed.row.kind)]
    apart = list(_apart(theirs, ours))
    return bool(apart) and all(any(re.search(match, one) for match in listed) for one in apart)


@cache
def _exceptions() -> list[dict[str, str]]:
    found: list[dict[str, str]] = yaml.load(_EXCEPTIONS.read_text(), yaml.CSafeLoader)
    return found


def _apart(theirs: Json, ours: Json) -> Iterator[str]:
    """What one side has and the other has not: complaints, or fields, without their indices."""
    if isinstance(theirs[1], dict) and isinstance(ours[1], dict):
        yield from _fields_apart(theirs[1], ours[1], "")
    else:
        sides = [set(one[1]) if isinstance(one[1], list) else set() for one in (theirs, ours)]
        yield from (_INDEX.sub("[]", one) for one in sorted(sides[0] ^ sides[1]))


def _fields_apart(theirs: Json, ours: Json, path: str) -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            yield from _fields_apart(theirs.get(key), ours.get(key), f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from _fields_apart(one, other, f"{path}[]")
    elif theirs != ours:
        yield f"{path}: {theirs!r}, {ours!r}"
