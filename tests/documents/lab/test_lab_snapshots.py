"""A lab reads the snapshots that it wrote before, and nothing else as one."""

from __future__ import annotations

import pytest

from tonnage.documents.lab.review import review
from tonnage.documents.lab.steps import parse_lab
from tonnage.model.errors import ConfigError


def _steps(*commands: str) -> str:
    runs = "".join(f"  - run: {command}\n" for command in commands)
    return f"name: x\ntitle: X\nscenario: inference\nsteps:\n{runs}"


def test_a_lab_reads_the_snapshots_that_it_wrote_before() -> None:
    written, read = (
        "tonnage snapshot --redact names --file c.jsonl.gz",
        "tonnage status --snapshot=c.jsonl.gz",
    )
    steps = parse_lab(_steps(written, read), source="lab.yaml", files={"a.yaml"}).steps
    assert [*review(steps[0].command).written] == ["c.jsonl.gz"]
    assert [*review(steps[1].command).snapshots] == ["c.jsonl.gz"]
    assert [*review(steps[1].command).files] == []


@pytest.mark.parametrize(
    "commands",
    [
        ("tonnage status --snapshot c.jsonl", "tonnage snapshot --file c.jsonl"),
        ("tonnage snapshot --file c.jsonl", "kubectl apply -f c.jsonl"),
        ("tonnage snapshot --file c.jsonl", "tonnage lint c.jsonl"),
    ],
    ids=["before it is written", "as a manifest", "as any other file"],
)
def test_a_snapshot_is_read_as_nothing_else(commands: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="has no file"):
        parse_lab(_steps(*commands), source="lab.yaml", files={"a.yaml"})


def test_a_snapshot_takes_no_name_of_a_file_beside_the_lab() -> None:
    with pytest.raises(ConfigError, match="already a file"):
        parse_lab(_steps("tonnage snapshot --file c.jsonl"), source="lab.yaml", files={"c.jsonl"})
