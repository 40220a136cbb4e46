"""`tonnage access`, and what commands say of objects that they may not see."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tonnage.adapters.node_facts.cluster import asked_cluster, captured_cluster
from tonnage.adapters.snapshots.cluster_file import read_objects
from tonnage.adapters.snapshots.kinds import CAPTURED
from tonnage.cli.access.unseen import rights_of
from tonnage.cli.doctor.report import rendered
from tonnage.cli.locations.labs_and_scenarios import labs_folder
from tonnage.cli.main import run
from tonnage.diagnose.doctor.finding import DoctorReport, Judgement, unseen_kind
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonValue
from tonnage.model.layer import NodeLayer
from tonnage.reading.command_kinds import COMMAND_KINDS
from tonnage.reading.documents import READ_KINDS
from tonnage.wire.reports import AccessAnswer, AccessReview

Objects = list[dict[str, Any]]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Objects:
    assert run(["access", *words], "tonnage") == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def granted(role: dict[str, Any]) -> set[tuple[str, str]]:
    assert all(rule["verbs"] == ["get", "list"] for rule in role["rules"]), "nothing but reading"
    return {
        (group, name) for rule in role["rules"] for group in rule["apiGroups"] for name in rule["resources"]
    }


def test_the_role_of_all_commands_grants_what_each_of_them_reads(capsys: pytest.CaptureFixture[str]) -> None:
    (role,) = printed(capsys)
    assert (role["kind"], role["metadata"]) == ("ClusterRole", {"name": "tonnage-reader"})
    assert granted(role) == {(k.group, k.plural) for kinds in COMMAND_KINDS.values() for k in kinds}
    assert not {"secrets", "configmaps"} & {name for _, name in granted(role)}
    assert {(kind.group, kind.plural) for kind in READ_KINDS} <= granted(role)


@pytest.mark.parametrize(
    ("words", "kind", "names"),
    [
        pytest.param(["mig", "plan"], "ClusterRole", {"nodegpustatuses"}, id="two words"),
        pytest.param(
            ["status"],
            "ClusterRole",
            {"nodes", "pods", "nodegpustatuses", "resourceslices", "resourceclaims"},
            id="a command",
        ),
        pytest.param(
            ["status", "-n", "ml"], "Role", {"pods", "resourceclaims"}, id="what lies in a namespace"
        ),
        pytest.param(
            ["topo", "-o", "json"],
            "ClusterRole",
            {"nodes", "nodegpustatuses", "resourceslices"},
            id="as JSON",
        ),
    ],
)
def test_the_role_of_a_command_grants_no_more(
    words: list[str], kind: str, names: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (role,) = printed(capsys, *words)
    assert role["kind"] == kind
    assert {name for _, name in granted(role)} == names


def test_the_binding_names_whoever_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    subjects = ["--user", "jane", "--group", "ml: team", "--service-account", "ml:ci"]
    role, binding = printed(capsys, "explain", *subjects)
    assert (binding["kind"], binding["roleRef"]["name"]) == ("ClusterRoleBinding", role["metadata"]["name"])
    assert [(s["kind"], s["name"]) for s in binding["subjects"]] == [
        ("User", "jane"), ("Group", "ml: team"), ("ServiceAccount", "ci"),
    ]  # fmt: skip
    role, binding = printed(capsys, "explain", "-n", "a, b: [c]", "--user", "jane")
    assert {obj["metadata"]["namespace"] for obj in (role, binding)} == {"a, b: [c]"}


@pytest.mark.parametrize(
    "words", [["nope"], ["mig"], ["--service-account", "ci"], ["--service-account", "ml:"]], ids=" ".join
)
def test_what_is_no_command_or_account_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["access", *words], "tonnage") == 2
    assert not capsys.readouterr().out


async def test_doctor_asks_for_nothing_beyond_its_role() -> None:
    asked: list[str] = []

    class _Api:
        server_ahead_s = 0.0

        async def get_raw(self, path: str) -> JsonValue:
            asked.append(urlsplit(path).path.rpartition("/")[2])
            if any(word in path for word in refused):
                raise ApiError(403, "Forbidden", "no")
            kind = "NodeList" if "/nodes" in path else "List"
            return {"kind": kind, "items": [{"metadata": {"name": "a"}}]}

    refused = ["pods"]
    facts, unseen = await asked_cluster(_Api(), "a")
    assert facts is not None
    assert facts.forbidden == unseen == {"Pod"}
    assert set(asked) == {right.resource for right in rights_of("doctor")}
    refused = ["pods", "/nodes"]
    facts, unseen = await asked_cluster(_Api(), "a")
    assert facts is None
    assert unseen == {"Node", "Pod"}, "the role names all at once"


def test_snapshot_captures_nothing_beyond_its_role() -> None:
    assert {kind.plural for kind in CAPTURED} == {right.resource for right in rights_of("snapshot")}


def _cluster(path: Path, **header: Any) -> Path:
    """A snapshot that a user with rights in namespace ml took: her pod, and nothing of the cluster."""
    head = {
        "apiVersion": "tonnage.dev/v1alpha1", "kind": "Snapshot", "format": 1, "serverVersion": "v1.35.0",
        "kinds": ["v1/Pod"], "missing": [
            {"kind": "Node", "apiVersion": "v1", "reason": "Forbidden"},
            {"kind": "NodeGPUStatus", "apiVersion": "tonnage.dev/v1alpha1", "reason": "Forbidden"},
            {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "reason": "Forbidden"},
            {"kind": "Pod", "apiVersion": "v1", "reason": "Forbidden", "namespace": "ml"},
        ], **header,
    }  # fmt: skip
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
        "status": {"phase": "Pending"},
    }  # fmt: skip
    end = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "SnapshotEnd", "objects": {"Pod": {"objects": 1}}}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (head, pod, end)))
    return path


@pytest.mark.parametrize(
    ("words", "status", "shown"),
    [
        pytest.param("explain pod train -n ml", 1, "UNKNOWN", id="her own pod"),
        pytest.param(
            "explain pod other -n ml", 2, 'pod "other" not found', id="no such pod, and she would see it"
        ),
        pytest.param("explain pod train -n default", 3, "pod train was not read", id="a pod elsewhere"),
        pytest.param("status", 1, "UNKNOWN: the Node objects were not read", id="the fleet"),
        pytest.param("claims", 1, "UNKNOWN: the ResourceClaim objects were not read", id="claims"),
        pytest.param("topo", 1, "UNKNOWN: the NodeGPUStatus objects", id="the topology of the fleet"),
        pytest.param("topo a100-0", 1, "UNKNOWN: the links between the GPUs of a100-0", id="that of a node"),
        pytest.param(
            "mig plan --node a100-0 --layout all-balanced", 1, "UNKNOWN: the GPUs of a100-0", id="a plan"
        ),
        pytest.param("simulate --cordon a*", 3, "the fleet was not read", id="a simulation"),
    ],
)
def test_what_hangs_on_what_may_not_be_seen_is_unknown(
    words: str, status: int, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = _cluster(tmp_path / "c.jsonl")
    assert run([*words.split(), "--snapshot", str(snapshot)], "tonnage") == status
    said = capsys.readouterr()
    assert shown in said.out + said.err
    if status != 2:
        assert "kind: ClusterRole" in said.err
        assert "nodegpustatuses" in said.err
    assert len(said.err) < 1500


def test_whoever_may_list_nothing_in_the_cluster_is_told_to_name_a_namespace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = _cluster(tmp_path / "c.jsonl")
    snapshot.write_text(snapshot.read_text().replace(', "namespace": "ml"}]', "}]"))
    assert run(["explain", "--all-pending", "--snapshot", str(snapshot)], "tonnage") == 3
    assert "remedy: name a namespace that you may read: -n NAMESPACE; or ask for" in capsys.readouterr().err


def _namespace_alone(path: Path) -> Path:
    """A snapshot that a user took who may list nodes, and the pods of namespace ml."""
    header = {
        "apiVersion": "tonnage.dev/v1alpha1", "kind": "Snapshot", "format": 1, "serverVersion": "v1.35.0",
        "kinds": ["v1/Node", "v1/Pod"],
        "missing": [{"kind": "Pod", "apiVersion": "v1", "reason": "Forbidden", "namespace": "ml"}],
    }  # fmt: skip
    amounts = {"nvidia.com/gpu": "4", "pods": "9"}
    status = {"capacity": amounts, "allocatable": amounts}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": status}
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "resources": {"limits": amounts}}]},
        "status": {"phase": "Running"},
    }  # fmt: skip
    objects = {"Node": {"objects": 1}, "Pod": {"objects": 1}}
    end = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "SnapshotEnd", "objects": objects}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (header, node, pod, end)))
    return path


@pytest.mark.parametrize(
    ("words", "allocated"),
    [
        pytest.param([], None, id="of the cluster it is not known"),
        pytest.param(["-n", "web"], None, id="of another namespace neither"),
        pytest.param(["-n", "ml"], 4, id="of the namespace that was read it is"),
    ],
)
def test_what_is_allocated_is_told_as_far_as_pods_were_seen(
    words: list[str], allocated: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = _namespace_alone(tmp_path / "c.jsonl")
    run(["status", *words, "--snapshot", str(snapshot), "-o", "json"], "tonnage")
    (row,) = json.loads(capsys.readouterr().out)["items"]
    assert (row["allocated"], row["allocatable"]) == (allocated, 4)


def test_lint_tells_programs_what_was_not_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot, manifest = _namespace_alone(tmp_path / "c.jsonl"), tmp_path / "pod.yaml"
    manifest.write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}")
    run(["lint", str(manifest), "--snapshot", str(snapshot), "-o", "json"], "tonnage")
    assert json.loads(capsys.readouterr().out)["unread"] == [{"kind": "Pod", "seenIn": "ml"}]


def test_lint_tells_reviewers_what_was_not_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot, manifest = _namespace_alone(tmp_path / "c.jsonl"), tmp_path / "pod.yaml"
    manifest.write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}")
    run(["lint", str(manifest), "--snapshot", str(snapshot), "-o", "sarif"], "tonnage")
    [invocation] = json.loads(capsys.readouterr().out)["runs"][0]["invocations"]
    assert invocation["toolExecutionNotifications"] == [
        {
            "level": "warning",
            "message": {"text": "Pod objects outside namespace ml were not read (forbidden)"},
        }
    ]


def test_doctor_takes_refusals_from_the_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = _namespace_alone(tmp_path / "c.jsonl")
    hardware = tmp_path / "hardware.yaml"
    hardware.write_text("devices:\n- {uuid: GPU-0, model: T4}\n")
    words = ["--devices", f"scenario:{hardware}", "--node-name", "a", "--layer", "plugin"]
    run(["doctor", "--root", str(tmp_path), *words, "--snapshot", str(snapshot)], "tonnage")
    assert "kind: ClusterRole" in capsys.readouterr().err
    facts, unseen = captured_cluster(read_objects(snapshot), "a")
    assert facts is not None
    assert facts.forbidden == unseen == {"Pod"}
    facts, unseen = captured_cluster(read_objects(_cluster(tmp_path / "d.jsonl")), "a")
    assert facts is None
    assert unseen == {"Node", "NodeGPUStatus", "Pod"}


def test_a_layer_that_hangs_on_what_may_not_be_seen_is_unknown_and_others_are_not_judged() -> None:
    layers = (
        Judgement(NodeLayer.PLUGIN, (), "", f"which pods kubelet refused: {unseen_kind('Pod')}"),
        Judgement(NodeLayer.LABELS, (), "", "the driver does not say"),
    )
    rows = [row.split() for row in rendered(DoctorReport("a", layers)).splitlines()[-2:]]
    assert (rows[0][:2], rows[1][:3]) == (["plugin", "UNKNOWN"], ["labels", "not", "judged"])


class _WithoutReviews:
    """A server on which the user may make no reviews, and list nodes and the pods of namespace ml."""

    namespace = "ml"

    async def create(self, *_: object) -> None:
        raise ApiError(403, "Forbidden", "selfsubjectaccessreviews is forbidden")

    async def get_raw(self, path: str) -> JsonValue:
        place, _, query = path.partition("?")
        assert query == "limit=1"
        if place.endswith("/nodegpustatuses"):
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        if place not in ("/api/v1/nodes", "/api/v1/namespaces/ml/pods"):
            raise ApiError(403, "Forbidden", "no")
        return {"items": []}


def test_check_lists_where_the_server_answers_no_reviews(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def connected(_: object) -> AsyncIterator[_WithoutReviews]:
        yield _WithoutReviews()

    monkeypatch.setattr("tonnage.cli.access.command.connected", connected)
    assert run(["access", "--check", "status", "-o", "json"], "tonnage") == 1
    said = capsys.readouterr()
    extents = {item["resource"]: item["list"] for item in json.loads(said.out)["items"]}
    assert extents["nodes"] == "everywhere"
    assert extents["pods"] == "in ml"
    assert extents["nodegpustatuses"] == "everywhere", "what is not there is not refused"
    assert "Each kind was listed instead" in said.err


class _Reviewed:
    """An API server that reviews: everything may be listed, and the agents' pages be read or not."""

    namespace = "ml"

    def __init__(self, *, pages: bool) -> None:
        self._pages = pages

    async def create(self, _: object, body: dict[str, Any]) -> AccessReview:
        asked = body["spec"]["resourceAttributes"]
        allowed = self._pages if asked["resource"] == "pods" and asked["verb"] == "get" else True
        if asked["verb"] == "get":
            assert (asked["subresource"], asked["namespace"]) == ("proxy", "tonnage-system")
        return AccessReview(status=AccessAnswer(allowed=allowed))


@pytest.mark.parametrize(
    ("pages", "extent", "status"),
    [
        pytest.param(True, "in tonnage-system", 0, id="the agents' pages may be read"),
        pytest.param(False, "no", 1, id="they may not, and the role that grants it is printed"),
    ],
)
def test_check_of_top_asks_for_the_agents_pages_too(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    pages: bool,
    extent: str,
    status: int,
) -> None:
    @asynccontextmanager
    async def connected(_: object) -> AsyncIterator[_Reviewed]:
        yield _Reviewed(pages=pages)

    monkeypatch.setattr("tonnage.cli.access.command.connected", connected)
    assert run(["access", "--check", "top", "-o", "json"], "tonnage") == status
    answer = json.loads(capsys.readouterr().out)
    assert answer["items"][-1] == {"group": "", "resource": "pods/proxy", "get": extent}
    assert run(["access", "--check", "top"], "tonnage") == status
    text = capsys.readouterr().out
    assert ["pods/proxy", "(get)", *extent.split()] in [line.split() for line in text.splitlines()]
    if not pages:
        assert answer["lacking"]["kind"] == "Role"
        assert "namespace: tonnage-system" in text


def test_the_lab_hands_out_the_role_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["access", "explain"], "tonnage") == 0
    assert capsys.readouterr().out == (labs_folder() / "restricted-user" / "role.yaml").read_text()


@pytest.mark.parametrize("words", ["status --as-group team", "status --as a\nb"])
def test_a_group_needs_a_user_and_neither_a_second_line(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("{}")
    assert run([*words.split(" "), "--kubeconfig", str(kubeconfig)], "tonnage") == 2
    assert "--as" in capsys.readouterr().err


def test_the_pages_of_agents_are_a_right_of_their_own_for_their_namespace_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    top = printed(capsys, "top", "--user", "jane")
    assert [(obj["kind"], obj["metadata"].get("namespace")) for obj in top] == [
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "tonnage-system"),
        ("RoleBinding", "tonnage-system"),
    ]
    assert top[2]["rules"] == [{"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]}]
    assert not any("proxy" in name for role in printed(capsys) for _, name in granted(role))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(
            "operator NONSENSE",
            "operator has no command NONSENSE: use one of: adopt, bundle, plan, release, rollback, status",
            id="no command of the family",
        ),
        pytest.param("operator adpt", "operator has no command adpt: use adopt if you meant that", id="near"),
        pytest.param(
            "mig", "mig has no role of its own: use mig plan if you meant that", id="the family alone"
        ),
        pytest.param("status now", "status has no command now: write status alone", id="no family"),
    ],
)
def test_a_command_without_a_role_is_told_which_have_one(
    words: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["access", *words.split()], "tonnage") == 2
    assert f"error: {error}\n" in capsys.readouterr().err
