"""Every manifest of the documents through `lint`, beside what a genuine API server (1.35.8) answers.

ADM-1, ADM-9, DRA-1 to 3, MIG-3, OPR-1, OPR-4, OPR-5, SCH-2, SCH-6, SHR-1 to 4. The answers are those of
tests/data/kubectl-documents.yaml, which scripts/record_kubectl_answers.py asks anew.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.first_hour import DOCUMENTS, MANIFESTS, recorded
from tonnage.cli.lint.lint_context import given_for
from tonnage.cli.options import Common
from tonnage.diagnose.lint.lint import lint
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.model.severity import Severity

FILES = sorted(MANIFESTS.glob("*.yaml"))
NOT_JUDGED = {
    "provisioning-affinity-alone.yaml": "a part of a pod, without kind",
    "operator-values.yaml": "values for Helm, no object",
    "sharing-kubelet.yaml": "a kubelet's file, which no API server takes",
    "sharing-node-pool.yaml": "Karpenter's: lint does not have the definition",
}
"""What an API server refuses and lint may let pass, and why."""
REFUSED_LATER = {
    "sharing-by-tier.yaml": "the device plugin refuses one replica",
}
"""What an API server accepts and lint calls an error."""


def refused_by_the_server() -> dict[str, bool]:
    """Whether a genuine API server refuses the file; a command names several only where all are accepted."""
    verdicts: dict[str, bool] = {}
    for rows in recorded(DOCUMENTS).values():
        for command, answer in rows:
            if "--dry-run=server -f" not in command:
                continue
            for word in command.split():
                if word.endswith(".yaml") and "namespaces" not in answer.err:
                    verdicts[word] = answer.code != 0
    return verdicts


def problems_in(path: Path, least: Severity) -> list[str]:
    """The codes of what lint finds there that is so bad, or worse."""
    sheets = [Sheet(path.name, path.read_text())]
    report = lint(sheets, asyncio.run(given_for(Common(), sheets)))
    worse = list(Severity)[: list(Severity).index(least) + 1]
    return [finding.code for finding in report.findings if finding.severity in worse]


def test_every_manifest_was_shown_to_a_genuine_server() -> None:
    applied = {
        name for rows in recorded(DOCUMENTS).values() for command, _ in rows for name in command.split()
    }
    assert {path.name for path in FILES} - applied == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_lint_agrees_with_the_server(path: Path) -> None:
    refused = refused_by_the_server().get(path.name, False)
    errors = problems_in(path, Severity.WARNING if refused else Severity.ERROR)
    assert (refused and not errors) == (path.name in NOT_JUDGED), (refused, errors)
    assert (not refused and bool(errors)) == (path.name in REFUSED_LATER), errors


def test_all_kinds_have_a_definition() -> None:
    """Karpenter's, the Prometheus operator's and NVIDIA's come out of their packages; none was left out."""
    unknown = {
        command: answer.err
        for rows in recorded(DOCUMENTS).values()
        for command, answer in rows
        if "no matches for kind" in answer.err
    }
    assert [command.rpartition(" ")[2] for command in unknown] == ["sharing-kubelet.yaml"]
