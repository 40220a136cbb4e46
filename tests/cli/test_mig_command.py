"""`tonnage mig`: plans for a captured node and for whole GPUs, demands, refusals; MIG-2 to MIG-6."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tonnage.cli.main import run
from tonnage.decide.node.mig.goal import goals_by_entries
from tonnage.decide.node.mig.plan import Instance
from tonnage.diagnose.mig.plans import goal_json, gpus_of
from tonnage.model.mig.layouts import MigEntry
from tonnage.model.node.gpu_status import DeviceHolder, DevicePart, GpuDevice, GpuStatus

CONFIGS = """\
version: v1
mig-configs:
  all-1g.10gb:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
  all-balanced:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 2, 2g.20gb: 1, 3g.40gb: 1}}
  mixed-workload:
  - {devices: [0], mig-enabled: false}
  - device-filter: ["0x20B210DE"]
    devices: [1, 2, 3]
    mig-enabled: true
    mig-devices: {2g.20gb: 3, 1g.10gb: 1}
  twice:
  - {devices: all, mig-enabled: false}
  - {devices: [1], mig-enabled: true, mig-devices: {7g.80gb: 1}}
  beyond:
  - {devices: [0, 9], mig-enabled: true, mig-devices: {7g.80gb: 1}}
"""


def part(profile: str, start: int, uuid: str) -> dict[str, object]:
    return {"uuid": uuid, "profile": profile, "placement": {"start": start, "size": 1}, "memoryMiB": 9856}


def holder(pod: str, *ids: str) -> dict[str, object]:
    return {
        "namespace": "ml",
        "pod": pod,
        "container": "c",
        "resource": "nvidia.com/mig-1g.10gb",
        "ids": [*ids],
    }


@pytest.fixture
def captured(tmp_path: Path) -> str:
    """A node with a divided GPU, on which two pods run, and a whole one."""
    parts = [part("1g.10gb", start, f"MIG-{start}") for start in range(7)]
    holders = [holder("chat", "MIG-2"), holder("eyes", "MIG-5", "MIG-6")]
    product = {"product": "NVIDIA A100-SXM4-80GB", "memoryMiB": 81920}
    devices = [
        {"uuid": "GPU-0", "index": 0, **product, "migDevices": parts, "holders": holders},
        {"uuid": "GPU-1", "index": 1, **product},
    ]
    status = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGPUStatus", "metadata": {"name": "a100-0"}}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [{**status, "status": {"devices": devices}}]}))
    return str(file)


@pytest.fixture
def configs(tmp_path: Path) -> str:
    file = tmp_path / "mig-parted.yaml"
    file.write_text(CONFIGS)
    return str(file)


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    status = run(["mig", "plan", *words, "-o", "json"], "tonnage")
    out = capsys.readouterr().out
    return status, json.loads(out) if out else {}


def test_mig_4_who_must_go_and_what_stays(
    captured: str, configs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--snapshot", captured, "--node", "a100-0", configs, "--config", "all-balanced")
    status, answer = asked(capsys, *words)
    divided, whole = answer["items"][0]["gpus"]
    assert status == 1
    assert [(each["profile"], each["start"], each["holders"]) for each in divided["keep"]] == [
        ("1g.10gb", 5, ["ml/eyes"]),
        ("1g.10gb", 6, ["ml/eyes"]),
    ] or divided["evict"] == ["ml/eyes"]
    assert len(divided["evict"]) == 1
    assert (whole["evict"], whole["keep"], whole["modeChange"]) == ([], [], True)
    assert sorted(each["start"] for each in whole["create"]) == [0, 2, 3, 4]


def test_mig_4_who_uses_a_gpu_as_a_whole_must_go_before_it_is_divided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGPUStatus", "metadata": {"name": "n"}}
    device = {"uuid": "GPU-0", "index": 0, "product": "NVIDIA A100-SXM4-80GB", "memoryMiB": 81920}
    devices = [{**device, "holders": [holder("train", "GPU-0")]}]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [{**status, "status": {"devices": devices}}]}))
    words = ("--snapshot", str(file), "--node", "n", "--layout")
    assert asked(capsys, *words, "all-balanced")[1]["items"][0]["gpus"][0]["evict"] == ["ml/train"]
    status_of_it, answer = asked(capsys, *words, "all-disabled")
    assert (status_of_it, answer["items"][0]["gpus"][0]["evict"]) == (0, [])


def test_mig_3_the_documents_configurations_on_whole_gpus(
    configs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, answer = asked(capsys, "--product", "A100-80", "--gpus", "4", configs)
    by_name = {item["config"]: item["gpus"] for item in answer["items"]}
    assert status == 1, "two of them cannot be done"
    assert [len(gpu["create"]) for gpu in by_name["all-1g.10gb"]] == [7, 7, 7, 7]
    assert [len(gpu["create"]) for gpu in by_name["mixed-workload"]] == [0, 4, 4, 4]
    assert by_name["twice"][1]["error"] == "two entries want it divided differently"
    assert by_name["beyond"][-1]["error"] == "the node has no such GPU"
    assert by_name["beyond"][-1]["askedAt"] == [f"{configs}:17:5 mig-configs.beyond[0]"]


def test_the_gpus_of_another_board_are_not_meant(configs: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--product", "A100-40", "--gpus", "4", configs, "--config", "mixed-workload")
    status, answer = asked(capsys, *words)
    assert status == 0
    assert answer["items"][0]["gpus"][1]["untouched"] is True


def test_mig_5_a_product_that_has_no_mig(capsys: pytest.CaptureFixture[str]) -> None:
    status, answer = asked(capsys, "--product", "T4", "--layout", "all-balanced")
    assert status == 1
    assert answer["items"][0]["gpus"][0]["error"] == "Tesla T4 has no MIG"
    assert "time-slicing" in answer["items"][0]["gpus"][0]["instead"]


def test_mig_6_a_demand(capsys: pytest.CaptureFixture[str]) -> None:
    status, answer = asked(capsys, "--product", "A100-80", "--demand", "10x9800Mi,2x40000Mi")
    assert (status, answer["gpus"], answer["least"], answer["estimated"]) == (0, 3, True, False)
    assert run(["mig", "plan", "--product", "A100-80", "--demand", "10x10Gi"], "tonnage") == 0
    assert "10 x 10240 MiB on 1g.20gb, which has 19968 MiB; 1g.10gb has only 9856" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ("--product", "A100-80", "--demand", "65x9800Mi"),
        ("--node", "a100-0", "--layout", "all-balanced"),
    ],
    ids=["demand", "node"],
)
def test_a_number_of_gpus_that_nothing_would_heed_is_refused(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["mig", "plan", *words, "--gpus", "3"], "tonnage") == 2
    assert "--gpus says how many of --product are divided" in capsys.readouterr().err


def test_compute_instances_that_have_a_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "split.yaml"
    wanted = "{devices: all, mig-enabled: true, mig-devices: {1c.3g.40gb: 1, 2c.3g.40gb: 1, 1g.10gb: 1}}"
    file.write_text(f"version: v1\nmig-configs:\n  split:\n  - {wanted}\n")
    assert run(["mig", "plan", "--product", "A100-80", str(file)], "tonnage") == 0
    assert "create   3g.40gb of 2c+1c@0, 1g.10gb@4" in capsys.readouterr().out
    _, answer = asked(capsys, "--product", "A100-80", str(file))
    assert answer["items"][0]["gpus"][0]["create"] == [
        {"profile": "3g.40gb", "start": 0, "computeInstances": [2, 1]},
        {"profile": "1g.10gb", "start": 4},
    ]


def test_a_filter_by_what_nobody_knows_of_a_board_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not passed over: the entry might be for another board."""
    file = tmp_path / "narrow.yaml"
    wanted = "devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}"
    one, other = "0x20B210DE:0x145F10DE", "0x233010DE:0x145F10DE"
    entries = f'[{{device-filter: "{one}", {wanted}}}, {{device-filter: ["{other}"], {wanted}}}]'
    file.write_text(f"version: v1\nmig-configs: {{narrow: {entries}}}\n")
    status, answer = asked(capsys, "--product", "A100-80", str(file))
    (gpu,) = answer["items"][0]["gpus"]
    assert status == 1
    assert "whether the device filter 20b2:0x145f10de means it is not known" in gpu["error"]
    assert len(gpu["askedAt"]) == 1, "the other is for an H100"


@pytest.mark.parametrize(
    ("product", "filters", "outcome"),
    [
        ("NVIDIA A100-SXM4-80GB", ["0x233010DE"], "untouched"),  # an H100, whose profiles are the same
        ("NVIDIA A100-SXM4-80GB", ["0x233010DE", "0x20B210DE"], "create"),
        ("NVIDIA A100 80GB PCIe", ["0x233010DE"], "error"),  # nobody told its id
        ("NVIDIA B200", ["0x290110DE"], "create"),
    ],
)
def test_a_filter_means_a_nodes_gpu_by_its_product(product: str, filters: list[str], outcome: str) -> None:
    """The agent knows the id of its GPU; who plans from afar has its name."""
    (gpu,) = gpus_of(GpuStatus("n", (GpuDevice("GPU-0", product, 0),)))
    ids = tuple(one[2:6].lower() for one in filters)
    wanted = {"1g.23gb": 1} if "B200" in product else {"7g.80gb": 1}
    (goal,) = goals_by_entries([gpu], [MigEntry(None, True, wanted, ids)])
    assert outcome in goal_json(goal, {}), goal
    if outcome == "error":
        assert goal.refusal is not None
        assert "of its PCI device id nothing is told" in goal.refusal.message


def test_an_instance_with_several_compute_instances_is_told_as_one() -> None:
    parts = tuple(
        DevicePart(f"MIG-{n}", name, start=4) for n, name in enumerate(("1c.3g.40gb", "2c.3g.40gb"))
    )
    holder = DeviceHolder("ml", "chat", "c", "nvidia.com/mig-1c.3g.40gb", ("MIG-0",))
    device = GpuDevice("GPU-0", "NVIDIA A100-SXM4-80GB", 0, parts=parts, holders=(holder,))
    (gpu,) = gpus_of(GpuStatus("a100-0", (device,)))
    assert gpu.now == (Instance("3g.40gb", 4, "MIG-0", ("ml/chat",), (2, 1)),)


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--product", "A100-80"), "say what is wanted"),
        (("--layout", "all-balanced"), "--node or --product"),
        (("--product", "T4", "--layout", "all-balanced", "--try-evictions"), "a node in a live cluster"),
        (("--product", "A100-81", "--layout", "all-balanced"), "no GPU model A100-81"),
        (("--product", "A100-80", "--demand", "ten"), "write number x memory"),
        (
            ("--product", "A100-80", "--demand", "foo", "--demand", "bar"),
            "--demand bar: write number x memory",
        ),
        (
            ("--product", "A100-80", "--demand", "foo", "--demand", "bar"),
            "--demand foo: write number x memory",
        ),
        (("--product", "A100-80", "--demand", "0x9800Mi"), "--demand 0x9800Mi: write number x memory"),
        (("--product", "A100-80", "--demand", "1x0Mi"), "--demand 1x0Mi: write number x memory"),
        (
            ("--product", "GH200", "--layout", "all-balanced"),
            "did you mean GH200 480GB or GH200 120GB or GH200 144G or GH200-96?",
        ),
        (("--product", "H200-80", "--layout", "all-balanced"), "did you mean H"),
        (("--product", "T4", "--demand", "1x1Gi"), "cannot be divided"),
        (("--product", "A100-80", "/nowhere.yaml"), "/nowhere.yaml"),
    ],
)
def test_wrong_use_is_told(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "plan", *words], "tonnage") == 2
    assert said in capsys.readouterr().err


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
    assert "9x is no MIG profile" in told
    assert "at least 1" not in told


def test_an_unknown_node_and_an_unknown_configuration(
    captured: str, configs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(["mig", "plan", "--snapshot", captured, "--node", "a100-1", "--layout", "all-balanced"], "t") == 2
    )
    assert "did you mean a100-0?" in capsys.readouterr().err
    assert run(["mig", "plan", "--product", "A100-80", configs, "--config", "all-balance"], "t") == 2
    assert "did you mean all-balanced?" in capsys.readouterr().err


def test_lint_checks_such_a_file(configs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "lint", configs], "tonnage") == 1
    found = [line for line in capsys.readouterr().out.splitlines() if "[mig" in line]
    assert [line.partition(configs)[2].partition(" error")[0] for line in found] == [":15:5:"], found
    assert "entry 0 of twice wants some of the same GPUs divided differently" in found[0]
    assert run(["mig", "lint", "/nowhere.yaml"], "tonnage") == 2


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
    assert "9x is no MIG profile" in told
    assert "no known GPU has the profile 1g.11gb" in told
    assert all(f"twice.yaml:{line + shift}:" in told for line in (2, 5, 8))


def test_a_plan_tells_all_of_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "twice.yaml"
    file.write_text(TWICE)
    assert run(["mig", "plan", "--product", "A100-80", str(file)], "tonnage") == 2
    told = capsys.readouterr().err
    assert (told.count("duplicate key"), "9x is no MIG profile" in told) == (2, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("version: v1\nmig-config: {}\n", "unknown field mig-config", id="a key misspelt"),
        pytest.param("version: v2\n", "unknown version: v2", id="another version"),
        pytest.param("version: v1\n", "required field is missing", id="nothing but a version"),
        pytest.param("foo: 1\n", "unknown field foo", id="something else"),
        pytest.param("", "the document is empty", id="empty"),
        pytest.param("[]\n", "input should be an object", id="a list"),
        pytest.param("hello\n", "input should be an object", id="a word"),
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


def test_what_is_offered_is_offered_once_and_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mig", "profiles", "--product", "X9"], "tonnage") == 2
    told = capsys.readouterr().err.partition("known: ")[2].replace("\n", " ").strip()
    known = [one.strip() for one in told.split(";")]
    assert len(known) == len({one.casefold() for one in known})
    for product in known:
        run(["mig", "profiles", "--product", product], "tonnage")
        assert "no GPU model" not in capsys.readouterr().err


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
    assert all(f"{name} alone is no MIG profile" in told for name in ("3g", "1c.2g", "1g+me"))
    assert "write it with its memory: 3g.20gb on A100 40GB; 3g.40gb on A100 80GB, H100 80GB" in told
    assert "did you mean 7g.40gb?" in told


def test_a_gpu_that_is_lost_is_left_out_of_a_plan(
    captured: str, configs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(captured)
    cluster = json.loads(file.read_text())
    cluster["items"][0]["status"]["devices"][1] |= {"health": "Unhealthy", "reason": "GPU is lost"}
    file.write_text(json.dumps(cluster))
    node = ("--node", "a100-0", "--snapshot", captured)
    for what in (("--layout", "all-balanced"), (configs, "--config", "all-balanced")):
        status, answer = asked(capsys, *node, *what)
        lost = answer["items"][0]["gpus"][1]
        assert (status, lost["error"]) == (
            1,
            "it is left out, since it is unhealthy (GPU is lost); repair or exchange it first",
        )
        assert "create" not in lost
        assert answer["items"][0]["gpus"][0]["create"]
    status, answer = asked(capsys, *node, configs, "--config", "mixed-workload")
    assert [gpu.get("error", "") for gpu in answer["items"][0]["gpus"][2:]] == [
        "the node has no such GPU"
    ] * 2
    assert run(["mig", "plan", *node, "--layout", "all-balanced"], "tonnage") == 1
    assert "GPU 1: cannot be done: it is left out, since it is unhealthy" in capsys.readouterr().out
