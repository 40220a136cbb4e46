"""The roles that `tonnage access` prints for `tonnage operator` grant what it asks, and no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from controller.driver_bench import DRIVERS, DriverBench
from controller.test_rights import Recorder
from support.rights import Right
from tonnage.adapters.snapshots.bundle_kinds import cluster_kinds, namespace_kinds
from tonnage.cli.access.operator_commands import check_operator_access
from tonnage.cli.main import run
from tonnage.cli.operator.drivers import _rollback
from tonnage.cli.operator.policy_view import OperatorPlace, operator_view
from tonnage.diagnose.operator_access import OPERATOR_ACCESS
from tonnage.wire.reports import AccessAnswer, AccessReview


def operator_rights(command: str) -> set[Right]:
    access = OPERATOR_ACCESS[command]
    places = [("", right) for right in access.cluster]
    for namespace in ("gpu-operator", "tonnage-system") if access.agents else ("gpu-operator",):
        places += [(namespace, right) for right in access.namespaced]
    return {Right(verb, r.group, r.resource, namespace) for namespace, r in places for verb in r.verbs}


@pytest.mark.parametrize("command", ["operator adopt", "operator release"])
def test_the_how_to_hands_out_the_roles_that_are_printed(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["access", *command.split()], "tonnage") == 0
    how_to = Path(__file__).parents[3] / "docs/how-to/adopt-role.yaml"
    assert capsys.readouterr().out == how_to.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", OPERATOR_ACCESS)
def test_a_command_of_the_operator_gets_roles_for_the_cluster_and_for_namespaces(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--operator-namespace", "nv", "--agents-namespace", "ours"]
    assert run(["access", *command.split(), "--user", "jane", *places], "tonnage") == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    name = OPERATOR_ACCESS[command].role
    bindings = [
        (obj["kind"], obj["metadata"].get("namespace"), obj["roleRef"]["name"])
        for obj in objects
        if obj["kind"].endswith("Binding")
    ]
    spaces = ["nv", "ours"] if OPERATOR_ACCESS[command].agents else ["nv"]
    assert bindings == [
        ("ClusterRoleBinding", None, name),
        *(("RoleBinding", namespace, f"{name}-namespaces") for namespace in spaces),
    ]
    assert run(["access", *command.split(), "-n", "ml"], "tonnage") == 2


def test_the_role_for_a_bundle_grants_what_it_gathers() -> None:
    access = OPERATOR_ACCESS["operator bundle"]
    for kinds, rights in ((cluster_kinds(), access.cluster), (namespace_kinds(), access.namespaced)):
        gathered = {(kind.api_version.rpartition("/")[0], kind.plural, "list") for kind in kinds}
        others = ("pods/log", "get") if rights is access.namespaced else ("namespaces", "list")
        assert {(r.group, r.resource, verb) for r in rights for verb in r.verbs} == {*gathered, ("", *others)}


@pytest.fixture
async def recorded(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[DriverBench, Recorder]]:
    bench = DriverBench()
    await bench.install()
    recorder = Recorder(bench.api)

    @asynccontextmanager
    async def connected(_: object) -> AsyncIterator[Recorder]:
        yield recorder

    monkeypatch.setattr("tonnage.cli.operator.policy_view.connected", connected)
    monkeypatch.setattr("tonnage.cli.operator.drivers.connected", connected)
    yield bench, recorder
    for task in bench.tasks:
        task.cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)


async def test_the_roles_to_look_and_to_roll_back_grant_what_is_asked(
    recorded: tuple[DriverBench, Recorder],
) -> None:
    bench, recorder = recorded
    common: Any = None
    await bench.machine("a")
    await bench.drivers("550.1")
    named = {"--operator-namespace": "gpu-operator"}
    place = OperatorPlace("gpu-operator", "tonnage-system", named)
    assert await operator_view(common, place) is not None
    bench.start(DRIVERS)
    await bench.clock.advance(30)
    assert await operator_view(common, place) is not None
    granted = operator_rights("operator status")
    assert recorder.rights <= granted
    assert anywhere(recorder.rights) == anywhere(granted)

    recorder.rights = set()
    await bench.drivers("550.2")
    await bench.clock.advance(60)
    await _rollback(common, None, "gpu-operator", named, dry_run=False)
    asked = {right._replace(name="") for right in recorder.rights}
    of_other_owners = {Right("patch", "nvidia.com", "nvidiadrivers")}
    assert asked | of_other_owners == operator_rights("operator rollback")


def anywhere(rights: set[Right]) -> set[Right]:
    """The two namespaces share a role."""
    return {right._replace(namespace="") for right in rights}


@pytest.mark.parametrize(("refused", "status"), [("", 0), ("deployments", 1)], ids=["all", "one is refused"])
async def test_check_asks_for_every_right_where_it_is_needed(
    refused: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: set[Right] = set()

    class _Reviewed:
        async def create(self, _: object, body: dict[str, Any]) -> AccessReview:
            of = body["spec"]["resourceAttributes"]
            asked.add(Right(of["verb"], of["group"], of["resource"], of.get("namespace", "")))
            return AccessReview(status=AccessAnswer(allowed=of["resource"] != refused))

    @asynccontextmanager
    async def connected(_: object) -> AsyncIterator[_Reviewed]:
        yield _Reviewed()

    monkeypatch.setattr("tonnage.cli.access.operator_commands.connected", connected)
    common: Any = SimpleNamespace(output="text")
    spaces = ("gpu-operator", "tonnage-system")
    assert await check_operator_access(common, "operator adopt", spaces) == status
    assert asked == operator_rights("operator adopt")
    text = capsys.readouterr().out
    assert ("kind: ClusterRole" in text) is bool(refused)
    common.output = "json"
    assert await check_operator_access(common, "operator adopt", spaces) == status
    answer = json.loads(capsys.readouterr().out)
    assert {item["resource"] for item in answer["items"] if not item["allowed"]} == {refused} - {""}
    assert (answer["lacking"] is not None) is bool(refused)
