"""Requests of tests/data/admission, one case after the other, and the answers that are kept of them.

A case has an `id`, which names its namespace, `about`, and `steps`: `do` (method and path), `body`, `type`
of the body, and `show`, paths of the answer that count; of a refusal all counts. `{ns}` stands for the
namespace. What a case makes outside its namespace is deleted after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parents[1] / "data" / "admission"
ANSWERS: Final = FOLDER.parent / "admission-1.35.8-answers.json"
_SLOW_KINDS: Final = re.compile(
    r"/(limitranges|resourcequotas|namespaces|runtimeclasses|storageclasses|priorityclasses"
    r"|customresourcedefinitions|\w+webhookconfigurations|validatingadmission\w+)(/|$|\?)"
)
_GENERATED: Final = re.compile(r"\b([a-z]+-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_UID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_SELF: Final = re.compile(r"\bselfType\d+")
_MOMENT: Final = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_BROWSED: Final = re.compile(r"([\w-]+)|\[(\d+)\]")


@dataclass(frozen=True)
class Step:
    """One request. `slow`: a genuine server takes a moment until what it made is in force."""

    method: str
    path: str
    body: Any
    content_type: str
    show: tuple[str, ...]
    wait_s: float

    @property
    def cluster_wide(self) -> bool:
        return self.method == "POST" and "/namespaces/" not in self.path and "dryRun" not in self.path


@dataclass(frozen=True)
class Case:
    """Steps of one story, in a namespace of their own."""

    id: str
    about: str
    labels: Mapping[str, str]
    steps: tuple[Step, ...]


def cases(values: Mapping[str, str] = {}) -> Iterator[Case]:
    """All cases, in the order of their files. `values` stand for names in braces."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for row in yaml.load(path.read_text(), yaml.CSafeLoader):
            filled = _filled(row, {"ns": row["id"], **values})
            steps = tuple(_step(one) for one in filled["steps"])
            yield Case(filled["id"], filled["about"], filled.get("labels", {}), steps)


def filled(case: Case, values: Mapping[str, str]) -> Case:
    """A case with these values for the names that are left in it."""
    steps = tuple(
        replace(one, path=_filled(one.path, values), body=_filled(one.body, values)) for one in case.steps
    )
    return replace(case, steps=steps)


def _step(row: dict[str, Any]) -> Step:
    method, _, path = row["do"].partition(" ")
    kind = row.get("type") or ("application/merge-patch+json" if method == "PATCH" else "application/json")
    slow = method != "GET" and _SLOW_KINDS.search(path) and "dryRun" not in path
    return Step(
        method, path, row.get("body"), kind, tuple(row.get("show", ())), row.get("wait", 0.4 if slow else 0)
    )


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in values.items():
            value = value.replace(_brace(name), text)
        return value
    if isinstance(value, dict):
        return {_filled(key, values): _filled(inner, values) for key, inner in value.items()}
    return [_filled(inner, values) for inner in value] if isinstance(value, list) else value


def told(
    code: int, answer: Any, warnings: list[str], step: Step, values: Mapping[str, str]
) -> dict[str, Any]:
    """What is kept of an answer, with names of this run left out."""
    kept: dict[str, Any] = {"code": code}
    if warnings:
        kept["warnings"] = warnings
    if code >= 400:
        kept["status"] = {key: answer.get(key) for key in ("reason", "message", "details") if key in answer}
    elif step.show:
        kept["shown"] = {path: seen(answer, path) for path in step.show}
    text = json.dumps(kept)
    for name, value in values.items():
        text = text.replace(json.dumps(value)[1:-1], _brace(name))
    text = _SELF.sub("selfType#", _GENERATED.sub(r"\1?????", text))
    plain: dict[str, Any] = json.loads(_MOMENT.sub("{moment}", _UID.sub("{uid}", text)))
    return plain


def _brace(name: str) -> str:
    return "{" + name + "}"


def seen(value: Any, path: str) -> Any:
    """The value at a path such as `spec.containers[0].resources`; None where there is none."""
    for name, index in _BROWSED.findall(path):
        if name:
            value = value.get(name) if isinstance(value, dict) else None
        else:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
    return value
