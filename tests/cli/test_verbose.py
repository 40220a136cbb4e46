"""`-v` is more detail, whatever the command: what is counted without it is named with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.cli.main import run

ROOT = Path(__file__).parents[2]
CLUSTER = str(ROOT / "tests/golden/clusters/contention.12.jsonl.gz")


@pytest.mark.parametrize(
    ("words", "counted", "named"),
    [
        pytest.param("status", "healthy", "└ GPU 3", id="status names devices and holders"),
        pytest.param("topo", "NVSwitch", "best 4: GPU 0, 1, 2, 3", id="topo shows the links of each node"),
        pytest.param(
            "explain pod notebook-794bd95dcb-2qlr4 -n everybody", "more: NOT_NOW", "a100-7: NOT_NOW",
            id="explain names each node",
        ),
        pytest.param(
            "simulate --drain a100-*", " and 20 more", "training-79994f84b4-mfrqg, everybody/training",
            id="simulate names each pod",
        ),
    ],
)  # fmt: skip
def test_verbose_names_what_is_counted(
    words: str, counted: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*words.split(), "--snapshot", CLUSTER]
    run(arguments, "tonnage")
    brief = capsys.readouterr().out
    run([*arguments, "-v"], "tonnage")
    whole = capsys.readouterr().out
    assert counted in brief
    assert named not in brief
    assert named in whole
