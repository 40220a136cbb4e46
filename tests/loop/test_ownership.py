"""Ownership without a selector's syntax: an owner takes what bears its name in the label `of`."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from support.api_stores import new_store
from tonnage.loop.informer import Delta
from tonnage.loop.ownership import Ownership, claims_of, controller_of
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import CONFIG_MAP, SECRET
from tonnage.wire.objects import ConfigMap, ObjectMeta, OwnerReference, Secret

GONE = "2026-01-01T00:00:00Z"
MINE, ANOTHERS = "uid-mine", "uid-anothers"


def _selects(owner: ConfigMap, labels: Mapping[str, str]) -> bool:
    return labels.get("of") == owner.metadata.name


def _owner(name: str = "owner", *, namespace: str = "default", deleted: bool = False) -> ConfigMap:
    deletion = GONE if deleted else None
    return ConfigMap(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=MINE, deletion_timestamp=deletion)
    )


def _secret(
    of: str = "",
    *,
    controller: str = "",
    kind: str = "ConfigMap",
    managed: bool = True,
    deleted: bool = False,
) -> Secret:
    references = [OwnerReference(kind=kind, name="owner", uid=controller, controller=managed)]
    return Secret(
        metadata=ObjectMeta(
            name="held",
            namespace="default",
            labels={"of": of},
            owner_references=references if controller else [],
            deletion_timestamp=GONE if deleted else None,
        )
    )


@pytest.mark.parametrize(
    ("owner", "candidate", "sorted_as"),
    [
        pytest.param(_owner(), _secret("owner"), "adopt", id="an orphan that matches is adopted"),
        pytest.param(_owner(), _secret("else"), "", id="an orphan that does not match is nobody's"),
        pytest.param(
            _owner(), _secret("owner", deleted=True), "", id="an orphan on its way out is not adopted"
        ),
        pytest.param(_owner(deleted=True), _secret("owner"), "", id="an owner on its way out adopts nothing"),
        pytest.param(
            _owner(), _secret("owner", controller=MINE), "owned", id="what it controls and selects is its own"
        ),
        pytest.param(
            _owner(), _secret("else", controller=MINE), "release", id="what it no longer selects is released"
        ),
        pytest.param(
            _owner(deleted=True),
            _secret("else", controller=MINE),
            "owned",
            id="an owner on its way out releases nothing",
        ),
        pytest.param(
            _owner(), _secret("owner", controller=ANOTHERS), "", id="another controller's stays another's"
        ),
        pytest.param(
            _owner(),
            _secret("owner", controller=ANOTHERS, managed=False),
            "adopt",
            id="an owner that is no controller does not stand in the way",
        ),
    ],
)
def test_claims_are_sorted(owner: ConfigMap, candidate: Secret, sorted_as: str) -> None:
    claims = claims_of(owner, _selects, [candidate])
    lists = {"owned": claims.owned, "adopt": claims.adopt, "release": claims.release}
    assert [name for name, objects in lists.items() if objects] == ([sorted_as] if sorted_as else [])


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        pytest.param(None, _secret("owner"), ["owner"], id="an orphan concerns whoever selects it"),
        pytest.param(None, _secret("else"), [], id="an orphan that nobody selects concerns nobody"),
        pytest.param(
            None,
            _secret("else", controller=ANOTHERS),
            ["owner"],
            id="a controlled object concerns its controller",
        ),
        pytest.param(
            None,
            _secret("owner", controller=ANOTHERS, kind="Job"),
            [],
            id="a controller of another kind is not asked, nor is a selector",
        ),
        pytest.param(
            _secret("owner"),
            _secret("other"),
            ["owner", "other"],
            id="a label that changes concerns who selected it before and who does now",
        ),
        pytest.param(_secret("other"), None, ["other"], id="a deletion concerns who selected it last"),
    ],
)
def test_a_change_concerns_its_owners(before: Secret | None, after: Secret | None, keys: list[str]) -> None:
    api = ApiServer(VirtualClock(), random=Random(7), store=new_store()).local()
    ownership = Ownership(api, CONFIG_MAP, SECRET, _selects)
    owners = [_owner(), _owner("other"), _owner(namespace="elsewhere")]
    assert list(ownership.concerned(Delta(before, after), owners)) == [("default", key) for key in keys]


class _Objects:
    """An owner on the twin's API server, and Secrets in its namespace."""

    def __init__(self) -> None:
        self.api: KubernetesApi = ApiServer(VirtualClock(), random=Random(7), store=new_store()).local()

    async def owner(self) -> ConfigMap:
        body: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        return await self.api.create(CONFIG_MAP, body, namespace="default")

    async def secret(self, of: str) -> Secret:
        metadata: JsonObject = {"name": "held", "labels": {"of": of}}
        body: JsonObject = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        return await self.api.create(SECRET, body, namespace="default")

    async def relabel(self, of: str) -> Secret:
        patch: JsonObject = {"metadata": {"labels": {"of": of}}}
        return await self.api.patch(SECRET, "held", patch, namespace="default")

    async def stored(self) -> Secret:
        return await self.api.get(SECRET, "held", "default")


@pytest.fixture
def objects() -> _Objects:
    return _Objects()


async def test_an_adopted_object_names_its_controller_until_it_is_released(objects: _Objects) -> None:
    owner, orphan = await objects.owner(), await objects.secret("owner")
    ownership = Ownership(objects.api, CONFIG_MAP, SECRET, _selects, finalizer="tonnage.dev/held")
    [adopted] = await ownership.settle(owner, [orphan])
    assert adopted == await objects.stored()
    controller = controller_of(adopted)
    assert controller is not None
    assert (controller.kind, controller.name, controller.uid) == ("ConfigMap", "owner", owner.metadata.uid)
    assert adopted.metadata.finalizers == ["tonnage.dev/held"]
    stray = await objects.relabel("else")
    assert await ownership.settle(owner, [stray]) == []
    assert (await objects.stored()).metadata.owner_references == []


async def test_an_owner_that_was_made_anew_under_its_name_adopts_nothing(objects: _Objects) -> None:
    owner, orphan = await objects.owner(), await objects.secret("owner")
    await objects.api.delete(CONFIG_MAP, "owner", namespace="default")
    await objects.owner()
    assert await Ownership(objects.api, CONFIG_MAP, SECRET, _selects).settle(owner, [orphan]) == []
    assert controller_of(await objects.stored()) is None


async def test_an_orphan_that_changed_meanwhile_is_left_for_the_next_time(objects: _Objects) -> None:
    owner, orphan = await objects.owner(), await objects.secret("owner")
    await objects.relabel("else")
    assert await Ownership(objects.api, CONFIG_MAP, SECRET, _selects).settle(owner, [orphan]) == []
    assert controller_of(await objects.stored()) is None
