"""New objects that a genuine Kubernetes 1.35.8 was asked to make, out of the recordings, with its answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import yaml

from support.admission_cases import ANSWERS, cases
from support.first_hour import BOOKS, recorded, scenes
from tonnage.wire.schema import load_schema

_PATH: Final = re.compile(r"/apis?/(.*?)(?:/namespaces/[^/]*)?/([a-z]+)(?:\?.*)?")
_MADE: Final = 201
_INVALID: Final = 422
_ELSEWHERE: Final = re.compile(
    r"is forbidden: |not configured |is already allocated|must be one of privileged|AGE|ADDRESS|selfType"
)
"""What hangs on the cluster, comes of an admission plugin, or has words for what differs between runs."""
_CHANGED: Final = frozenset({"hook-invalid 1"})
"""Objects that a webhook makes invalid."""
_OPEN: Final = re.compile(r"UID|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


@dataclass(frozen=True)
class Creation:
    """An object, its namespace, and the message of its refusal: empty where it was made."""

    source: str
    body: dict[str, Any]
    namespace: str
    said: str

    def __str__(self) -> str:
        return self.source


@cache
def creations() -> tuple[Creation, ...]:
    """All whose answer hangs on nothing but the object."""
    return tuple(
        one
        for one in (*_of_books(), *_of_admission())
        if one.source not in _CHANGED and not _ELSEWHERE.search(one.said)
    )


def _of_books() -> Iterator[Creation]:
    for book in BOOKS:
        answers = recorded(book)
        for scene in scenes(book):
            for number, (command, answer) in enumerate(answers.get(scene.name, ())):
                words = command.split()
                if words[0] != "POST" or words[2:3] != ["<"] or answer.code not in (_MADE, _INVALID):
                    continue
                body = yaml.load(scene.files[words[3]], yaml.CSafeLoader)
                kind = _kind(words[1])
                if not isinstance(body, dict) or body.get("kind") != kind.get("kind"):
                    continue
                said = yaml.load(answer.out, yaml.CSafeLoader)["message"] if answer.code == _INVALID else ""
                yield Creation(f"{scene.name} {number}", body, "lab", _OPEN.sub("…", said))


def _of_admission() -> Iterator[Creation]:
    answers = json.loads(ANSWERS.read_text())
    for case in cases():
        for number, (step, answer) in enumerate(zip(case.steps, answers[case.id], strict=True)):
            if step.method != "POST" or answer["code"] not in (_MADE, _INVALID):
                continue
            kind = _kind(step.path)
            body = {**kind, **step.body} if isinstance(step.body, dict) else {}
            if (
                kind
                and body["kind"] == kind["kind"]
                and "{" not in str(body.get("webhooks", "")).replace("{'", "")
            ):
                said = answer["status"]["message"] if answer["code"] == _INVALID else ""
                yield Creation(f"{case.id} {number}", body, case.id, said)


def _kind(path: str) -> dict[str, str]:
    """apiVersion and kind of what is made at a path; nothing for custom kinds and subresources."""
    found = _PATH.fullmatch(path)
    row = found and next(
        (one for one in load_schema().kinds if (one.api_version, one.plural) == found.groups()), None
    )
    return {"apiVersion": row.api_version, "kind": row.kind} if row and "get" in row.verbs else {}
