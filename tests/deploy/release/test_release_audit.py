"""What is said of vulnerabilities: those that are known, and of what nobody could tell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.release.audit import Audit, audited

NAMES = ["a", "b"]
KNOWN = {"id": "PYSEC-1", "aliases": ["CVE-2026-1"], "fix_versions": ["1.1"]}
ABSENT = "Dependency not found on PyPI and could not be audited: b (2.0)"


def row(name: str, *vulnerabilities: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "version": "1.0", "vulns": list(vulnerabilities)}


def asked(folder: Path, script: str, accept: tuple[str, ...] = ()) -> Audit:
    """With a program in pip-audit's place."""
    return audited(folder / "requirements.txt", NAMES, accept=accept, program=(sys.executable, "-c", script))


def answering(rows: list[dict[str, Any]], status: int = 0) -> str:
    return f"import sys; print({json.dumps({'dependencies': rows})!r}); sys.exit({status})"


@pytest.mark.parametrize(
    ("script", "accept", "status", "said"),
    [
        pytest.param(
            answering([row("a"), row("b")]),
            (),
            "audited",
            "audited: 2 Python packages without a known vulnerability",
            id="all are known to be well",
        ),
        pytest.param(
            answering([row("a", KNOWN), row("b")], 1),
            (),
            "vulnerable",
            "vulnerable: a 1.0: CVE-2026-1 PYSEC-1; mended in 1.1",
            id="one is not",
        ),
        pytest.param(
            answering([row("a", KNOWN), row("b")], 1),
            ("CVE-2026-1",),
            "audited",
            "accepted: a 1.0: CVE-2026-1 PYSEC-1; mended in 1.1",
            id="one is accepted by another of its names",
        ),
        pytest.param(
            answering([row("a"), {"name": "b", "skip_reason": ABSENT}]),
            (),
            "partly audited",
            "not audited: 1 Python packages (b): pip-audit says: Dependency not found on PyPI",
            id="of one nothing is known",
        ),
        pytest.param(
            answering([{"name": name, "skip_reason": ABSENT} for name in NAMES]),
            (),
            "not audited",
            "not audited: 2 Python packages (a, b): pip-audit says",
            id="of none, with which pip-audit itself is content",
        ),
        pytest.param(
            answering([row("a")]),
            (),
            "partly audited",
            "(b): pip-audit says nothing of it",
            id="one is passed over",
        ),
        pytest.param(
            "import sys; sys.exit('ConnectionError: no route')",
            (),
            "not audited",
            "pip-audit failed: ConnectionError: no route",
            id="no network",
        ),
        pytest.param("print('[]')", (), "not audited", "pip-audit failed: exit status 0", id="no answer"),
    ],
)
def test_what_is_said(tmp_path: Path, script: str, accept: tuple[str, ...], status: str, said: str) -> None:
    audit = asked(tmp_path, script, accept)
    assert audit.status == status
    assert said in "\n".join(audit.lines())
    assert json.loads(audit.record())["status"] == status


def test_without_pip_audit_nothing_is_audited(tmp_path: Path) -> None:
    audit = audited(tmp_path / "requirements.txt", NAMES, program=(str(tmp_path / "none"),))
    assert audit.status == "not audited"
    assert set(audit.skipped) == set(NAMES)


def test_debians_packages_are_never_said_to_be_audited(tmp_path: Path) -> None:
    audit = asked(tmp_path, answering([row("a"), row("b")]))
    assert "not audited: Debian's packages" in "\n".join(audit.lines())
    assert json.loads(audit.record())["debian"]["status"] == "not audited"
