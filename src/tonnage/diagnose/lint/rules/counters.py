"""TEL-1: CSVs of counters, in a ConfigMap or in values of a chart: lines that the exporter cannot serve.

dcgm-exporter serves nothing of a file in which one line is wrong; Tonnage leaves the line out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, mapping
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.exporter_counters import NOT_EXPORTED, read_counters
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject
from tonnage.model.reasons.lint.configurations import CounterLineInvalid, CounterNotExported

_COUNTER: Final = re.compile(r"^[ \t]*(DCGM_(FI|EXP)_\w+|tonnage_gpu_\w+)[ \t]*,", re.MULTILINE)
_OF_VALUES: Final[tuple[Path, ...]] = (("customMetrics",), ("exporter", "counters"))
"""Where dcgm-exporter's chart has a CSV, and where ours."""
_WHY_LINE: Final = "dcgm-exporter serves nothing of the file, Tonnage leaves the line out"


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on each text that has counters in it."""
    del inputs
    for path, text in _texts(manifest.value, manifest.kind):
        yield from _of_text(manifest, (*manifest.path, *path), text)


def _texts(value: JsonObject, kind: str) -> Iterator[tuple[Path, str]]:
    if kind == "ConfigMap":
        places: Iterator[Path] = (("data", key) for key in mapping(value.get("data")))
    else:
        places = iter(() if kind else _OF_VALUES)
    for path in places:
        inner: object = value
        for step in path:
            inner = inner.get(step) if isinstance(inner, dict) else None
        if isinstance(inner, str) and _COUNTER.search(inner):
            yield path, inner


def _of_text(manifest: ManifestObject, path: Path, text: str) -> Iterator[Draft]:
    sheet = manifest.sheet.inner(manifest.document, path, text)
    for problem in read_counters(text.encode(), "").problems:
        line = problem.where.rpartition(":")[2]
        at = sheet.in_file(int(line), 1) if line.isdigit() else None
        if problem.what.startswith(NOT_EXPORTED):
            reason: CounterNotExported | CounterLineInvalid = CounterNotExported(
                message=problem.what, remedy=problem.remedy
            )
            yield Draft(reason, path, problem.why, at=at)
        else:
            message = f"{problem.what}: {problem.why}" if problem.why else problem.what
            reason = CounterLineInvalid(message=message, remedy=problem.remedy)
            yield Draft(reason, path, _WHY_LINE, at=at)
