"""Known vulnerabilities of what is shipped, by pip-audit; what it cannot know is said, never passed over."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

PROGRAM: Final = (sys.executable, "-m", "pip_audit")
DEBIAN: Final = (
    "no list of their vulnerabilities is asked here; a scanner takes the image, or its bill of materials"
)
_PATIENCE_S: Final = 300


@dataclass(frozen=True, slots=True)
class Audit:
    """`clean` are packages without a known vulnerability, `skipped` those nobody could tell of, by reason;
    `found` a text for each vulnerability, `accepted` those that were accepted by name."""

    clean: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    found: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """`vulnerable`, `audited`, `partly audited` or `not audited`."""
        if self.found:
            return "vulnerable"
        if not self.skipped:
            return "audited"
        return "partly audited" if self.clean or self.accepted else "not audited"

    def lines(self) -> Iterator[str]:
        """What a person is told; each skipped reason once."""
        if self.clean:
            yield f"audited: {len(self.clean)} Python packages without a known vulnerability"
        for text in self.accepted:
            yield f"accepted: {text}"
        for reason in dict.fromkeys(self.skipped.values()):
            names = [name for name, own in self.skipped.items() if own == reason]
            some = ", ".join([*names[:3], *(["…"] if len(names) > 3 else [])])
            yield f"not audited: {len(names)} Python packages ({some}): {reason}"
        yield f"not audited: Debian's packages: {DEBIAN}"
        for text in self.found:
            yield f"vulnerable: {text}"

    def record(self) -> str:
        """The same for programs."""
        values = {
            "status": self.status,
            "python": {
                "audited": self.clean,
                "notAudited": dict(self.skipped),
                "vulnerable": self.found,
                "accepted": self.accepted,
            },
            "debian": {"status": "not audited", "reason": DEBIAN},
        }
        return json.dumps(values, indent=2) + "\n"


def audited(
    requirements: Path,
    names: Sequence[str],
    *,
    accept: Collection[str] = (),
    program: Sequence[str] = PROGRAM,
) -> Audit:
    """Ask pip-audit about pinned requirements with hashes. `names` are those that the file has."""
    options = ("--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json")
    command = [*program, *options, "--requirement", str(requirements)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Audit(skipped=dict.fromkeys(names, f"pip-audit did not answer: {error}"))
    try:
        rows = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return Audit(skipped=dict.fromkeys(names, f"pip-audit failed: {lines[-1][:300]}"))
    return _read(rows, names, accept)


def _read(rows: Sequence[Mapping[str, Any]], names: Sequence[str], accept: Collection[str]) -> Audit:
    clean: list[str] = []
    found: list[str] = []
    accepted: list[str] = []
    skipped = dict.fromkeys(names, "pip-audit says nothing of it")
    for row in rows:
        name = str(row["name"])
        if "skip_reason" in row:
            skipped[name] = f"pip-audit says: {str(row['skip_reason']).partition(':')[0]}"  # the name follows
            continue
        skipped.pop(name, None)
        if not row["vulns"]:
            clean.append(name)
        for vulnerability in row["vulns"]:
            known_as = {vulnerability["id"], *vulnerability.get("aliases", ())}
            mended = ", ".join(vulnerability["fix_versions"]) or "no version yet"
            text = f"{name} {row['version']}: {' '.join(sorted(known_as))}; mended in {mended}"
            (accepted if known_as & set(accept) else found).append(text)
    return Audit(tuple(sorted(clean)), dict(sorted(skipped.items())), tuple(found), tuple(accepted))
