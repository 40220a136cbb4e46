"""`tonnage mig`: products, their profiles and layouts; MIG-1, MIG-5."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tonnage.cli.main import run


def test_mig_1_the_profiles_of_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "profiles", "--product", "A100-80", "-o", "json"], "tonnage") == 0
    answer = json.loads(capsys.readouterr().out)
    found = {one["name"]: (one["computeSlices"], one["memorySlices"]) for one in answer["profiles"]}
    assert (answer["computeSlices"], answer["memorySlices"], answer["estimated"]) == (7, 8, False)
    assert found["3g.40gb"] == (3, 4), "half of the memory"
    assert found == {
        "7g.80gb": (7, 8),
        "4g.40gb": (4, 4),
        "3g.40gb": (3, 4),
        "2g.20gb": (2, 2),
        "1g.20gb": (1, 2),
        "1g.10gb+me": (1, 1),
        "1g.10gb": (1, 1),
    }


def test_boards_that_no_model_of_the_catalogue_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "profiles", "--product", "RTX PRO 6000"], "tonnage") == 0
    told = capsys.readouterr().out
    assert "1g.24gb+me.all   1      1/4       3/12     ~23347   0,3,6,9" in told
    assert "All share 4 sets of media engines and 1 for optical flow." in told
    assert run(["mig", "plan", "--product", "A30", "--layout", "all-balanced"], "tonnage") == 0
    assert "create   2g.12gb@0, 1g.6gb@2, 1g.6gb@3" in capsys.readouterr().out


def test_every_full_layout_of_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "layouts", "--product", "A100-80"], "tonnage") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 28
    assert "2g.20gb:3,1g.10gb:1             2g.20gb@0, 2g.20gb@2, 2g.20gb@4, 1g.10gb@6" in lines
    assert run(["mig", "layouts", "--product", "A100-80", "--media", "-o", "json"], "tonnage") == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["layouts"]) == 44
    assert all(sum(one["profiles"].values()) == len(one["placed"]) for one in answer["layouts"])


@pytest.mark.parametrize(
    ("product", "names"),
    [
        ("A100-40", "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
        ("A100-80", "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        ("H100-80", "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        ("H100-94", "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb"),
        ("h100-96", "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
        ("GH200-96", "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
        ("H20", "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
        ("GH200-144", "1g.18gb 1g.18gb+me 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb"),
        ("H200-141", "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
        ("B200-180", "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"),
        ("GB200-186", "1g.23gb 1g.23gb+me 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb"),
        ("GB200-189", "1g.24gb 1g.24gb+me 1g.47gb 2g.47gb 3g.95gb 4g.95gb 7g.189gb"),
        ("B300", "1g.34gb 1g.34gb+me 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb"),
        ("GB300", "1g.35gb 1g.35gb+me 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb"),
        ("A30-24", "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb"),
    ],
)
def test_mig_1_a_board_by_its_model_and_its_gb(
    product: str, names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["mig", "profiles", "--product", product, "-o", "json"], "tonnage") == 0
    profiles = json.loads(capsys.readouterr().out)["profiles"]
    assert [profile["name"] for profile in reversed(profiles)] == names.split()


@pytest.mark.parametrize("product", ["T4", "V100"])
def test_mig_5_what_has_no_mig_has_no_profiles(product: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "profiles", "--product", product], "tonnage") == 2
    assert "time-slicing or MPS or an A100" in capsys.readouterr().err


@pytest.mark.parametrize("count", [65, 1_000_000_000])
def test_no_geometry_is_tried_for_numbers_that_no_gpu_has(
    count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "many.yaml"
    wanted = f"{{devices: all, mig-enabled: true, mig-devices: {{1g.10gb: {count}}}}}"
    file.write_text(f"version: v1\nmig-configs:\n  many:\n  - {wanted}\n")
    assert run(["mig", "lint", str(file)], "tonnage") == 1
    told = capsys.readouterr().out
    assert "64" in told
    assert "do not fit together" not in told


def test_what_is_offered_is_offered_once_and_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "profiles", "--product", "X9"], "tonnage") == 2
    told = capsys.readouterr().err.partition("known: ")[2].replace("\n", " ").strip()
    known = [one.strip() for one in told.split(";")]
    assert len(known) == len({one.casefold() for one in known})
    for product in known:
        run(["mig", "profiles", "--product", product], "tonnage")
        assert "no GPU model" not in capsys.readouterr().err
