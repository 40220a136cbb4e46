"""`tonnage mig`: plans for a captured node and for whole GPUs, demands, refusals; MIG-2 to MIG-6."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.mig_configs import holder
from tonnage.cli.main import run
from tonnage.decide.node.mig.goal import goals_by_entries
from tonnage.decide.node.mig.plan import Instance
from tonnage.diagnose.mig.plans import goal_json, gpus_of
from tonnage.model.mig.layouts import MigEntry
from tonnage.model.node.gpu_status import DeviceHolder, DevicePart, GpuDevice, GpuStatus


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
    assert by_name["twice"][1]["error"] == "two entries ask for different layouts"
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
    assert answer["items"][0]["gpus"][0]["error"] == "Tesla T4 does not support MIG"
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
    assert "Tonnage cannot tell whether the device filter 20b2:0x145f10de matches it" in gpu["error"]
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
        assert "its PCI device id is unknown" in goal.refusal.message


def test_an_instance_with_several_compute_instances_is_told_as_one() -> None:
    parts = tuple(
        DevicePart(f"MIG-{n}", name, start=4) for n, name in enumerate(("1c.3g.40gb", "2c.3g.40gb"))
    )
    holder = DeviceHolder("ml", "chat", "c", "nvidia.com/mig-1c.3g.40gb", ("MIG-0",))
    device = GpuDevice("GPU-0", "NVIDIA A100-SXM4-80GB", 0, parts=parts, holders=(holder,))
    (gpu,) = gpus_of(GpuStatus("a100-0", (device,)))
    assert gpu.now == (Instance("3g.40gb", 4, "MIG-0", ("ml/chat",), (2, 1)),)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--product", "A100-80"), "give exactly one of FILE"),
        (("--layout", "all-balanced"), "--node or --product"),
        (("--product", "T4", "--layout", "all-balanced", "--try-evictions"), "a node in a live cluster"),
        (("--product", "A100-81", "--layout", "all-balanced"), "unknown GPU model A100-81"),
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


def test_an_unknown_node_and_an_unknown_configuration(
    captured: str, configs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(["mig", "plan", "--snapshot", captured, "--node", "a100-1", "--layout", "all-balanced"], "t") == 2
    )
    assert "use a100-0 if you meant that" in capsys.readouterr().err
    assert run(["mig", "plan", "--product", "A100-80", configs, "--config", "all-balance"], "t") == 2
    assert "use all-balanced if you meant that" in capsys.readouterr().err


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
            "it is unhealthy (GPU is lost), so it is left out; repair or replace it first",
        )
        assert "create" not in lost
        assert answer["items"][0]["gpus"][0]["create"]
    status, answer = asked(capsys, *node, configs, "--config", "mixed-workload")
    assert [gpu.get("error", "") for gpu in answer["items"][0]["gpus"][2:]] == [
        "the node has no such GPU"
    ] * 2
    assert run(["mig", "plan", *node, "--layout", "all-balanced"], "tonnage") == 1
    assert "GPU 1: cannot be done: it is unhealthy" in capsys.readouterr().out
