"""`tonnage claims`: every claim with its devices and pods, and what the others wait for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tonnage.cli.main import run
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.resource_claims import ResourceClaim

DRIVER = "gpu.nvidia.com"


def claim(name: str, device: str = "", *, pods: tuple[str, ...] = (), count: int = 1) -> Any:
    spec = {
        "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": count}}]}
    }
    status: dict[str, Any] = {}
    if device:
        grant = {"request": "gpu", "driver": DRIVER, "pool": "a100-0", "device": device}
        status["allocation"] = {"devices": {"results": [grant]}}
        status["reservedFor"] = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods]
    meta = {"name": name, "namespace": "ml", "uid": f"uid-{name}"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": spec,
        "status": status,
    }


def pod(name: str, claim_name: str, node: str = "") -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "main", "image": "a", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def published(*devices: str) -> Any:
    attributes = {"type": {"string": "gpu"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "00"},
        "spec": {
            "driver": DRIVER,
            "nodeName": "a100-0",
            "pool": {"name": "a100-0", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": name, "attributes": attributes} for name in devices],
        },
    }


def report(*holders: tuple[str, str]) -> Any:
    """A NodeGPUStatus in which these claims hold a device each."""
    devices = [
        {
            "uuid": f"GPU-{number}",
            "index": number,
            "health": "Healthy",
            "holders": [{"resource": name, "ids": [f"GPU-{number}"], "namespace": "ml", "pod": held_by}],
        }
        for number, (name, held_by) in enumerate(holders)
    ]
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": "a100-0"},
        "status": {"devices": devices},
    }


NODE: Any = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a100-0"},
    "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}},
}
CLASS: Any = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    items = [
        *(NODE, CLASS, published("gpu-0", "gpu-1"), report(("ml/held", "train"))),
        *(claim("held", "gpu-0", pods=("train",)), pod("train", "held", "a100-0")),
        *(claim("left", "gpu-1"), claim("large", count=3), pod("big", "large"), claim("idle")),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(file)


def test_each_claim_has_a_row_and_what_is_amiss_stands_below(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["claims", "--snapshot", cluster], "tonnage") == 1
    printed = capsys.readouterr().out
    assert [line.split() for line in printed.splitlines()[:5]] == [
        ["CLAIM", "STATE", "DEVICES", "NODE", "PODS", "CLASS"],
        ["ml/held", "held", "gpu-0", "a100-0", "train", DRIVER],
        ["ml/idle", "waiting", "-", "-", "-", DRIVER],
        ["ml/large", "waiting", "-", "-", "big", DRIVER],
        ["ml/left", "unused", "gpu-1", "a100-0", "-", DRIVER],
    ]
    assert "ml/idle: no pod uses it: devices are allocated with the first" in printed
    assert "ml/large: request gpu wants 3 of class gpu.nvidia.com; 0 left on a100-0 (2 in use)" in printed
    assert "  do: " not in printed.partition("ml/large: ")[0]
    assert "ml/left: no pod uses it, and its devices stay allocated until it is deleted" in printed


def test_a_claim_of_a_pod_that_runs_is_held_whoever_prepared_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No agent reports claims with admin access, nor those of other drivers."""
    watching = claim("watching", "gpu-0", pods=("watch",))
    watching["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    items = [NODE, CLASS, published("gpu-0"), report(), watching, pod("watch", "watching", "a100-0")]
    file = tmp_path / "watching.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run(["claims", "--snapshot", str(file)], "tonnage") == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["ml/watching", "held"]
    assert run(["explain", "pod", "watch", "-n", "ml", "--snapshot", str(file)], "tonnage") == 0
    assert "runs on a100-0 with ml/watching: gpu.nvidia.com/a100-0/gpu-0" in capsys.readouterr().out


def test_a_claim_that_its_node_has_not_prepared_says_where_to_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starting = pod("train", "new", "a100-0")
    starting["status"] = {"phase": "Pending"}
    items = [NODE, CLASS, published("gpu-0"), report(), claim("new", "gpu-0", pods=("train",)), starting]
    file = tmp_path / "new.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run(["claims", "--snapshot", str(file)], "tonnage") == 1
    printed = capsys.readouterr().out
    assert "ml/new: a100-0 has not prepared it yet for pod train\n  do: tonnage explain pod train" in printed


def test_what_keeps_a_claim_on_all_nodes_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starting = pod("starts", "held", "a100-0")
    starting["status"] = {"phase": "Pending"}
    held = claim("held", "gpu-0", pods=("starts",))
    waiting = (claim("classless"), pod("train", "classless"))
    items = [NODE, published("gpu-0"), report(("ml/held", "starts")), held, starting, *waiting]
    file = tmp_path / "classless.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run(["claims", "--snapshot", str(file)], "tonnage") == 1
    _, _, amiss = capsys.readouterr().out.partition("\n\n")
    why, remedy = amiss.splitlines()
    assert why == "ml/classless: the DeviceClass gpu.nvidia.com does not exist"
    assert remedy.startswith("  do: create the DeviceClass gpu.nvidia.com")


def test_a_claim_with_a_part_of_a_device_says_how_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = claim("part", "gpu-0", pods=("train",))
    [grant] = part["status"]["allocation"]["devices"]["results"]
    grant |= {"shareID": "8a1e", "consumedCapacity": {"memory": "20Gi", "shares": "1", "idle": "0"}}
    file = tmp_path / "part.json"
    items = [NODE, part, pod("train", "part", "a100-0"), published("gpu-0")]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run(["claims", "--snapshot", str(file)], "tonnage") == 0
    assert "gpu-0 (20Gi memory, 1 shares)" in capsys.readouterr().out


def test_a_device_of_another_vendor_is_named_with_its_driver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = claim("other", "card-0", pods=("train",))
    other["status"]["allocation"]["devices"]["results"][0]["driver"] = "gpu.example.com"
    file = tmp_path / "other.json"
    items = [NODE, other, pod("train", "other", "a100-0"), published("gpu-0")]
    items[-1]["spec"]["driver"] = "gpu.example.com"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run(["claims", "--snapshot", str(file)], "tonnage") == 0
    assert " gpu.example.com/card-0 " in capsys.readouterr().out
    assert run(["status", "--snapshot", str(file)], "tonnage") in (0, 1)
    assert "gpu.example.com" in capsys.readouterr().out


def test_one_claim_in_order_is_exit_status_0(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "held", "--snapshot", cluster, "-o", "json"], "tonnage") == 0
    [row] = json.loads(capsys.readouterr().out)["items"]
    assert row == {
        "namespace": "ml",
        "name": "held",
        "state": "held",
        "classes": [DRIVER],
        "devices": [f"{DRIVER}/a100-0/gpu-0"],
        "node": "a100-0",
        "pods": ["train"],
        "why": None,
        "consumed": [{}],
        "remedy": None,
        "details": [],
    }


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        pytest.param(["hold"], 2, 'no ResourceClaim is named "hold"', id="misspelt"),
        pytest.param(["-n", "nobody"], 0, "No ResourceClaim in namespace nobody was found.", id="none-there"),
        pytest.param(
            ["large", "-o", "wide"],
            1,
            "  a100-0: claim ml/large, request gpu: wants 3 of class gpu.nvidia.com, 0 left "
            "(gpu-0, gpu-1 in use by claim ml/held of train, claim ml/left)",
            id="what each node lacks",
        ),
        pytest.param(["-o", "name"], 1, "resourceclaim.resource.k8s.io/held", id="names"),
        pytest.param(["ml/held"], 0, "ml/held   held", id="by the name that the table has"),
        pytest.param(["held", "-n", "other"], 2, "it is in ml: -n ml", id="of another namespace"),
    ],
)
def test_what_is_asked_for(
    arguments: list[str], status: int, told: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["claims", *arguments, "--snapshot", cluster], "tonnage") == status
    printed = capsys.readouterr()
    assert told in printed.out + printed.err


FORBIDDEN = frozenset({"ResourceClaim"})


@pytest.mark.parametrize(
    ("snapshot", "arguments", "status", "told"),
    [
        pytest.param(
            Snapshot(unserved=frozenset({"ResourceClaim"})),
            [],
            1,
            "UNKNOWN: the API server has no ResourceClaim at version resource.k8s.io/v1.\n"
            "  remedy: upgrade to Kubernetes 1.34",
            id="an older server",
        ),
        pytest.param(
            Snapshot(missing=FORBIDDEN, forbidden=FORBIDDEN),
            ["train"],
            3,
            "resourceclaim train was not read",
            id="claims that may not be read are not said to be absent",
        ),
        pytest.param(
            Snapshot(claims=(ResourceClaim("ml", "idle"),), missing=frozenset({"Pod"})),
            [],
            1,
            "ml/idle: Pod objects were not read: Tonnage cannot tell who uses it",
            id="without the pods",
        ),
    ],
)
def test_what_was_not_read_is_not_said_to_be_absent(
    snapshot: Snapshot,
    arguments: list[str],
    status: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def of_an_older_server(*_: object) -> Snapshot:
        return snapshot

    monkeypatch.setattr("tonnage.cli.claims.snapshot_of", of_an_older_server)
    assert run(["claims", *arguments], "tonnage") == status
    printed = capsys.readouterr()
    assert told in printed.out + printed.err


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["claim", "large"], 1, "Pod ml/big: N"),
        (["resourceclaim/held"], 0, "Pod ml/train: RUNNING"),
        (
            ["claim", "idle"],
            2,
            "devices are allocated with the first pod\n  remedy: tonnage claims idle -n ml",
        ),
        (["claim", "larg"], 2, "use large if you meant that"),
        (["large"], 2, "it is a ResourceClaim: tonnage explain claim large -n ml"),
    ],
    ids=["a pod waits", "a pod runs", "no pod", "misspelt", "by the name alone"],
)
def test_explain_answers_for_the_pod_of_a_claim(
    words: list[str], status: int, told: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", *words, "-n", "ml", "--snapshot", cluster], "tonnage") == status
    printed = capsys.readouterr()
    assert told in printed.out + printed.err


def test_claims_that_wait_alike_are_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tonnage.diagnose.claims._MOST_EXPLAINED", 2)
    waiting = [item for name in "abcd" for item in (claim(name, count=3), pod(f"of-{name}", name))]
    file = tmp_path / "many.json"
    items = [NODE, CLASS, published("gpu-0"), *waiting]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run(["claims", "--snapshot", str(file)], "tonnage") == 1
    _, _, amiss = capsys.readouterr().out.partition("\n\n")
    *_, others, remedy = amiss.splitlines()
    assert others == "ml/c, ml/d: not explained: 2 other waiting claims were"
    assert remedy == "  do: tonnage explain --all-pending"
