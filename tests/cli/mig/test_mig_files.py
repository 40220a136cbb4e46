"""Files of mig-parted: what `tonnage mig` and `tonnage lint` refuse in them, and where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tonnage.cli.main import run


def test_every_problem_of_a_file_at_once_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "version: v2\nmig-configs:\n  a:\n  - {devices: some, mig-enabled: true, mig-devices: {9x: 1}}\n"
        "  - {devices: [0], mig-enabled: false, mig-devices: {1g.10gb: 1}, extra: 1}\n"
    )
    assert run(["mig", "plan", "--product", "A100-80", str(file)], "tonnage") == 2
    told = capsys.readouterr().err
    for place in (":1:1 version", ":4:6 mig-configs.a[0].devices", ":5:67 mig-configs.a[1].extra"):
        assert place in told
    assert "9x is not a MIG profile" in told
    assert "at least 1" not in told


def test_lint_checks_such_a_file(configs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "lint", configs], "tonnage") == 1
    found = [line for line in capsys.readouterr().out.splitlines() if "[mig" in line]
    assert [line.partition(configs)[2].partition(" error")[0] for line in found] == [":15:5:"], found
    assert "entry 0 of twice gives some of the same GPUs another layout" in found[0]
    assert run(["mig", "lint", "/nowhere.yaml"], "tonnage") == 2


TWICE = """\
version: v1
version: v1
mig-configs:
  a:
  - {devices: some, mig-enabled: true, mig-devices: {9x: 1}}
  - devices: [0]
    mig-enabled: true
    mig-devices: {1g.10gb: 1, 1g.10gb: 2, 1g.11gb: 1}
"""
"""A key given twice hides nothing else."""


@pytest.mark.parametrize("indented", [False, True], ids=["a file", "a ConfigMap"])
def test_a_key_given_twice_hides_no_other_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], indented: bool
) -> None:
    file, text, shift = tmp_path / "twice.yaml", TWICE, 0
    if indented:
        block = "".join(f"    {line}\n" for line in TWICE.splitlines())
        text = f"kind: ConfigMap\napiVersion: v1\nmetadata: {{name: m}}\ndata:\n  config.yaml: |\n{block}"
        shift = 5
    file.write_text(text)
    assert run(["mig", "lint", str(file)], "tonnage") == (1 if indented else 2)
    captured = capsys.readouterr()
    told = captured.out + captured.err
    assert told.count("duplicate key") == 2
    assert "9x is not a MIG profile" in told
    assert "no known GPU has the profile 1g.11gb" in told
    assert all(f"twice.yaml:{line + shift}:" in told for line in (2, 5, 8))


def test_a_plan_tells_all_of_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "twice.yaml"
    file.write_text(TWICE)
    assert run(["mig", "plan", "--product", "A100-80", str(file)], "tonnage") == 2
    told = capsys.readouterr().err
    assert (told.count("duplicate key"), "9x is not a MIG profile" in told) == (2, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("version: v1\nmig-config: {}\n", "unknown field mig-config", id="a key misspelt"),
        pytest.param("version: v2\n", "unknown version: v2", id="another version"),
        pytest.param("version: v1\n", "required field is missing", id="nothing but a version"),
        pytest.param("foo: 1\n", "unknown field foo", id="something else"),
        pytest.param("", "the document is empty", id="empty"),
        pytest.param("[]\n", "a mapping is expected", id="a list"),
        pytest.param("hello\n", "a mapping is expected", id="a word"),
        pytest.param("a: 1\n---\nb: 1\n", "more than one document", id="two documents"),
    ],
)
def test_what_a_plan_refuses_lint_does_not_pass(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mig.yaml"
    file.write_text(text)
    assert run(["mig", "plan", "--product", "A100-80", str(file)], "tonnage") == 2
    assert said in capsys.readouterr().err
    assert run(["mig", "lint", str(file)], "tonnage") in (1, 2)
    told = capsys.readouterr()
    assert said in told.out + told.err
    assert not told.out.startswith("nothing wrong")


def test_what_is_an_object_is_linted_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "map.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n")
    (tmp_path / "patch.yaml").write_text("data: {a: b}\n")
    assert run(["mig", "lint", str(file), str(tmp_path / "patch.yaml")], "tonnage") == 0
    assert "nothing wrong in 2 objects in 2 files; 1 not judged" in capsys.readouterr().out


def test_what_boards_refuse_for_reasons_of_their_own_is_told_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "eight.yaml"
    file.write_text(
        "version: v1\nmig-configs:\n  eight:\n"
        "  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 8}}\n"
    )
    assert run(["mig", "lint", str(file)], "tonnage") == 1
    told = capsys.readouterr().out
    assert "on A100 80GB, H100 80GB: a GPU holds at most 7 of 1g.10gb, not 8" in told
    assert "on A100 40GB: a GPU holds at most 4 of 1g.10gb, not 8" in told
    assert "1g.10gb:4 on A100 40GB; 1g.10gb:7 on A100 80GB, H100 80GB" in told


def test_lint_and_plan_place_a_mistake_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "version: v1\nmig-configs:\n  a:\n  - devices: [0, x]\n    mig-enabled: 1\n"
        "    mig-devices: {1g.10gb: -1, 9x: 1}\n  - devices: [1]\n    mig-enabled: false\n"
        "    mig-devices: {1g.10gb: 1}\n    extra: {}\n  b: []\n"
    )
    assert run(["mig", "plan", "--product", "A100-80", str(file)], "tonnage") == 2
    planned = set(re.findall(r"bad.yaml:([0-9]+:[0-9]+)", capsys.readouterr().err))
    assert run(["mig", "lint", str(file)], "tonnage") == 1
    linted = set(re.findall(r"bad.yaml:([0-9]+:[0-9]+)", capsys.readouterr().out))
    assert len(planned) == 7
    assert linted == planned


def test_an_empty_layout_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    for layout in ("", "1g.10gb:1,"):
        assert run(["mig", "plan", "--product", "A100-80", "--layout", layout], "tonnage") == 1
        assert "a profile is missing" in capsys.readouterr().out


def test_a_configuration_for_other_boards_alone_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.yaml"
    entry = '{device-filter: "0x20B010DE", devices: all, mig-enabled: false}'
    file.write_text(f"version: v1\nmig-configs:\n  other: [{entry}]\n")
    assert run(["mig", "plan", "--product", "A100-80", str(file)], "tonnage") == 0
    assert "other: none of its entries is for NVIDIA A100-SXM4-80GB" in capsys.readouterr().out


def test_a_gpu_named_twice_and_slices_without_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(
        "version: v1\nmig-configs:\n  odd:\n  - devices: [0, 0]\n    mig-enabled: true\n"
        "    mig-devices: {3g: 1, 9g.1gb: 1, 1c.2g: 1, 1g+me: 1}\n"
    )
    assert run(["mig", "lint", str(file)], "tonnage") == 1
    told = capsys.readouterr().out
    assert "odd.yaml:4:5: warning: GPU 0 is named twice" in told
    assert all(f"{name} is not a whole MIG profile" in told for name in ("3g", "1c.2g", "1g+me"))
    assert "write it with its memory: 3g.20gb on A100 40GB; 3g.40gb on A100 80GB, H100 80GB" in told
    assert "use 7g.40gb if you meant that" in told
