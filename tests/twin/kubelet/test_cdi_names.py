"""What the runtime makes of CDI names, as genuine ones (tests/kubernetes/containers/test_cdi_runtimes.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tonnage.twin.kubelet.devices.cdi import CdiEdits, resolve_cdi

GPU = "a.b/gpu"


def spec(number: int, **changes: Any) -> dict[str, Any]:
    mount = {"hostPath": f"/opt/lib{number}", "containerPath": "/lib/x"}
    edits = {"env": [f"FROM={number}"], "deviceNodes": [{"path": f"/dev/n{number}"}], "mounts": [mount]}
    return {
        "cdiVersion": "0.5.0",
        "kind": GPU,
        "devices": [{"name": "0", "containerEdits": edits}],
        **changes,
    }


GIVEN = CdiEdits(("/dev/n1",), {"FROM": "1"}, mounts={"/lib/x": "/opt/lib1"})
MISSING = CdiEdits(missing=(f"{GPU}=0",))


@pytest.mark.parametrize(
    ("etc", "run", "expected"),
    [
        pytest.param([spec(1)], [], GIVEN, id="one spec"),
        pytest.param([spec(0)], [spec(1)], GIVEN, id="the later folder wins"),
        pytest.param([spec(0), spec(1)], [], MISSING, id="two of a folder are none"),
        pytest.param([spec(0), spec(0)], [spec(1)], MISSING, id="though a later folder has it"),
        pytest.param([spec(1, cdiVersion="0.3.0")], [], MISSING, id="too old a version"),
        pytest.param([spec(1, device=[])], [], MISSING, id="an unknown field"),
        pytest.param([spec(1, cdiVersion="0.3.0")], [spec(1)], GIVEN, id="a broken one harms no other"),
        pytest.param([spec(1, kind={})], [spec(1)], GIVEN, id="of whatever kind"),
        pytest.param([], [], CdiEdits(), id="a kind without specs is the toolkit's"),
    ],
)
def test_a_name_stands_for_what_a_runtime_takes_it_for(
    etc: list[dict[str, Any]], run: list[dict[str, Any]], expected: CdiEdits, tmp_path: Path
) -> None:
    folders = []
    for name, specs in (("etc", etc), ("run", run)):
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        for number, each in enumerate(specs):
            (folders[-1] / f"{number}.json").write_text(json.dumps(each))
    assert resolve_cdi(folders, [f"{GPU}=0"]) == expected
    assert resolve_cdi(folders, []) == CdiEdits()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="brackets"),
        pytest.param("a: " + "9" * 5000, id="a long number"),
        pytest.param("a: &a [*a]", id="an alias of itself"),
        pytest.param("a: 1\n---\nb: 1", id="two documents"),
    ],
)
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_spec_made_to_hurt_is_left_out(text: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text(json.dumps(spec(1)))
    (tmp_path / f"1.{suffix}").write_text(text)
    assert resolve_cdi([tmp_path], [f"{GPU}=0"]) == GIVEN
