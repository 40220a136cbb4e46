"""The labs and scenarios that ship, without running them."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tonnage.cli.locations.labs_and_scenarios import (
    DEFAULT_SCENARIO,
    lab_names,
    load_lab,
    load_scenario,
    scenario_names,
)
from tonnage.cli.main import run
from tonnage.documents.lab.permitted import PERMITTED
from tonnage.documents.lab.review import manifest_files
from tonnage.documents.lab.steps import parse_lab
from tonnage.model.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", lab_names())
def test_a_lab_is_whole(name: str) -> None:
    found = load_lab(name)
    assert found.lab.name == name
    assert found.lab.covers
    assert found.lab.scenario in scenario_names()
    assert found.lab.cleanup
    used = {file for step in found.lab.steps for file in manifest_files(step.command)}
    present = {path.name for path in found.folder.iterdir()} - {"lab.yaml"}
    assert used == present


@pytest.mark.parametrize("name", lab_names())
def test_the_manifests_of_a_lab_are_objects_with_names_of_their_own(name: str) -> None:
    folder = load_lab(name).folder
    for path in folder.glob("*.yaml"):
        documents = [document for document in yaml.load_all(path.read_text(), yaml.CSafeLoader) if document]
        assert documents, path
        names = Counter((d["kind"], d["metadata"]["name"]) for d in documents if "apiVersion" in d)
        assert all(count == 1 for count in names.values()), path


def test_the_figures_of_the_contention_lab_follow_from_its_manifests_and_its_fleet() -> None:
    """SCH-11: what is wanted, what is there, what it costs and how much of it works."""
    found = load_lab("contention")
    told = " ".join(found.lab.description.split())
    fleet = sum(g.nodes * g.gpu.count for g in load_scenario(found.lab.scenario).groups if g.gpu)
    wanted = {
        name: _gpus_of(found.folder / f"{name}.yaml") for name in ("training", "inference", "notebooks")
    }
    asked = sum(wanted.values())
    assert (asked, fleet) == (36, 32)

    cost = re.search(r"([0-9]+) GPUs x ([0-9.]+) USD x ([0-9]+) hours = ([0-9,]+) USD a month", told)
    busy = re.search(
        r"\(([0-9]+) x ([0-9]+) \+ ([0-9]+) x ([0-9]+) \+ ([0-9]+) x ([0-9]+)\) / ([0-9]+) = ([0-9]+) %", told
    )
    idle = re.search(r"about ([0-9]+),000 USD", told)
    assert cost is not None
    assert busy is not None
    assert idle is not None
    monthly = int(cost[1]) * float(cost[2]) * int(cost[3])
    parts = [int(busy[n]) for n in range(1, 7)]
    share = sum(parts[n] * parts[n + 1] for n in (0, 2, 4)) / int(busy[7])
    assert int(cost[1]) == fleet
    assert f"{monthly:,.0f}" == cost[4]
    assert (parts[0::2], int(busy[7])) == ([*wanted.values()], asked)
    assert round(share) == int(busy[8])
    assert round(monthly * (100 - share) / 100 / 1000) == int(idle[1])
    more = (asked - fleet) * float(cost[2]) * int(cost[3])
    assert any(f"for {more:,.0f} USD a month" in step.title for step in found.lab.steps)


def _gpus_of(path: Path) -> int:
    spec = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]
    limits = spec["template"]["spec"]["containers"][0]["resources"]["limits"]
    return int(spec["replicas"]) * int(limits["nvidia.com/gpu"])


def test_labs_cover_their_cases() -> None:
    covered = {name: set(load_lab(name).lab.covers) for name in lab_names()}
    assert covered["inference-sharing"] >= {"SHR-2", "SCH-9"}
    assert covered["time-slicing"] >= {"SHR-1"}
    assert covered["sharing-by-tier"] >= {"SHR-3"}
    assert covered["pending-pod"] >= {"SCH-1", "SCH-2", "SCH-4"}
    assert covered["admission"] >= {"ADM-1", "ADM-2", "ADM-3"}
    assert covered["slow-placement"] >= {"TOP-1", "TOP-2", "TOP-3"}
    assert covered["quota"] >= {"ADM-9", "ADM-10"}
    assert covered["contention"] >= {"SCH-8", "SCH-11"}
    assert covered["whole-workload"] >= {"SCH-1"}
    assert covered["numa"] >= {"KUB-3"}
    assert covered["which-gpu"] >= {"SCH-5", "SCH-6"}
    assert covered["priority"] >= {"SCH-10"}
    assert covered["repartitioned-pool"] >= {"SCH-7", "SCH-8"}
    assert covered["mig-catalogue"] >= {"MIG-1", "MIG-2", "MIG-6"}
    assert covered["mig-refused"] >= {"MIG-5"}
    assert covered["mig-reconfigure"] >= {"MIG-3", "MIG-4", "SCH-7"}
    assert covered["cdi-injection"] >= {"RUN-1", "RUN-4"}
    assert covered["failing-gpu"] >= {"KUB-2", "SCH-3"}
    assert covered["telemetry"] >= {"TEL-1", "TEL-2", "SCH-8"}
    assert "inference-sharing" in covered


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_can_be_used(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.description


def test_the_default_fleet_is_what_the_figures_are_measured_with() -> None:
    scenario = load_scenario(DEFAULT_SCENARIO)
    assert scenario.nodes == 8
    assert {group.gpu.count for group in scenario.groups if group.gpu} >= {1, 4}


def test_the_how_to_shows_a_lab_that_can_be_read() -> None:
    page = (ROOT / "docs" / "how-to" / "write-a-lab.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    lab = parse_lab(example, source="write-a-lab.md", files={"pods.yaml"})
    assert lab.steps[0].command.assigns == "NODE"


@pytest.mark.parametrize("program", PERMITTED)
def test_the_how_to_lists_what_a_lab_may_run(program: str) -> None:
    page = (ROOT / "docs" / "how-to" / "write-a-lab.md").read_text()
    (row,) = re.findall(rf"^\| `{program}` \| (.*) \|$", page, re.MULTILINE)
    assert row.split(", ") == [f"`{subcommand}`" for subcommand in PERMITTED[program]]


def test_an_own_lab_is_found_by_folder_and_by_file(tmp_path: Path) -> None:
    text = "name: own\ntitle: Own\nscenario: inference\nsteps: [{run: kubectl get -f a.yaml}]\n"
    (tmp_path / "lab.yaml").write_text(text)
    (tmp_path / "a.yaml").write_text("{}")
    assert load_lab(str(tmp_path)).lab == load_lab(str(tmp_path / "lab.yaml")).lab
    assert load_lab(str(tmp_path)).folder == tmp_path.resolve()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(b"\xff\xfe", "the file is not UTF-8", id="bytes"),
        pytest.param(b"a: b: c", "not valid YAML", id="broken YAML"),
        pytest.param(b"x" * (5 << 20), "file too large", id="five megabytes"),
    ],
)
def test_an_unreadable_lab_is_an_error_with_a_place(tmp_path: Path, content: bytes, found: str) -> None:
    (tmp_path / "lab.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=found) as caught:
        load_lab(str(tmp_path))
    assert str(tmp_path) in caught.value.problems[0].where


def test_labs_are_listed_for_people_and_for_scripts(tonnage: Path) -> None:
    for arguments in ([], ["-o", "json"]):
        process = subprocess.run(
            [tonnage, "lab", "list", *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        for name in lab_names():
            assert name in process.stdout
    assert [row["name"] for row in json.loads(process.stdout)["items"]] == list(lab_names())


def test_a_lab_is_shown_without_being_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "show", "restricted-user"], "tonnage") == 0
    shown = capsys.readouterr().out
    assert "$ kubectl create quota gpus" in shown
    assert "as user jane: --as jane" in shown
    assert "$ kubectl delete $NAMESPACE --ignore-not-found" in shown, "the clean-up too"
    assert run(["lab", "show", "restricted-user", "-o", "json"], "tonnage") == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert {step.get("as") for step in steps} == {None, "jane"}


@pytest.mark.parametrize(
    "name", [name for name in lab_names() if load_scenario(load_lab(name).lab.scenario).gates]
)
def test_a_lab_whose_scenario_turns_feature_gates_on_names_those_that_it_needs(name: str) -> None:
    lab = load_lab(name).lab
    named = set(re.findall(r"\bDRA[A-Za-z]+\b", lab.description))
    assert named, "it says which gate it needs"
    assert named <= {gate for gate, on in load_scenario(lab.scenario).gates if on}
