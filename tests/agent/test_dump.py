"""A dump of the board: asked over the agent's socket, without secrets, and replayed with the same outcome."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from scripts.dump_schema import FILE, dump_schema
from support.agent_context import context_of
from tonnage.adapters.agent_socket import SOCKET, ask_agent
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.dump import VERSION, BoardFacts, NodeDump, board_of, dump_in, dump_of
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.main import run_agent
from tonnage.agent.options import STATE, AgentOptions
from tonnage.agent.status.body import status_of
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.claims.offer import ClaimOffer
from tonnage.decide.node.labels.node_labels import node_labels
from tonnage.decide.node.ledger import LedgerEntry
from tonnage.decide.node.mig.desired_layout import MigWish, wish_for
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import HardwareError
from tonnage.model.mig.hooks import HostWork
from tonnage.model.names import GPU
from tonnage.model.reasons.gpu.claim_serving import ClaimDriverRegistered, ServingReason
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import NODE
from tonnage.wire.objects import Node, NodeSpec, ObjectMeta

HARDWARE = """
devices:
- {uuid: GPU-0, model: T4, numa: 0}
- {uuid: GPU-1, model: T4, memoryUsedMib: 4096}
- {uuid: GPU-2, model: A100-80, mig: [1g.10gb, 3g.40gb]}
"""
CONFIG = """
version: v1  # a comment of a person
flags: {migStrategy: mixed}
sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}
"""


@pytest.fixture
def root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


async def hold(root: Path, clock: Any) -> None:
    """An agent before this one gave GPU-0 out as a whole."""
    context = context_of("node-1", None, clock, FolderCheckpoints(root / STATE))
    await HoldLedger(context, NodeBoard.blank(clock)).take(lambda: [LedgerEntry(GPU, "GPU-0", 1, 0.0)])


async def dumped(root: Path) -> NodeDump | None:
    """None: the agent has only begun."""
    try:
        return dump_in(await asyncio.to_thread(ask_agent, root / STATE / SOCKET))
    except HardwareError:
        return None


def replayed(dump: NodeDump, clock: Any) -> dict[str, Any]:
    """What the agent offers and publishes, as it follows from a dump; what is not known yet is left out."""
    board = board_of(dump, clock)
    offer, inventory, config = board.offer.value, board.inventory.value, board.configuration.value
    machine, labels = board.machine.value, board.labels.value
    outcome: dict[str, Any] = {}
    if offer is not None:
        status = status_of(offer, board.samples.value, board.software.value, at="").to_json()
        outcome |= {"offer": offer.advertised, "status": without_time(status)}
    if inventory is not None and config is not None and machine is not None and labels is not None:
        options: Any = {"readable": True, "direct": labels.direct, "started": labels.started}
        outcome["labels"] = node_labels(inventory, config.config, machine, **options)
    return outcome


def without_time(status: Any) -> Any:
    return {name: value for name, value in status.items() if name not in ("updatedAt", "heartbeatAt")}


async def test_what_an_agent_does_follows_from_its_dump(root: Path, cluster: Any, clock: Any) -> None:
    (root / "hardware.yaml").write_text(HARDWARE)
    await hold(root, clock)
    cluster.put(NODE, "node-1")
    cluster.configs(default=CONFIG)
    options = AgentOptions("node-1", f"scenario:{root / 'hardware.yaml'}", root, labels="direct")
    agent = asyncio.create_task(run_agent(options, api=cluster, clock=clock))
    outcome: dict[str, Any] = {}
    done: dict[str, Any] = {"status": None}
    try:
        await cluster.until(lambda: len(cluster.status("node-1").get("resources", ())) == 3)
        until = clock.monotonic() + 1200
        while (
            outcome != done and clock.monotonic() < until
        ):  # a change is published a moment after it is known
            await clock.sleep(1)
            labels = cluster.objects[NODE.plural, "", "node-1"]["metadata"].get("labels")
            done = {"status": without_time(cluster.status("node-1")), "labels": labels}
            if (dump := await dumped(root)) is not None and dump.facts.offer.value is not None:
                outcome = replayed(dump, clock)
                done["offer"] = dump.facts.offer.value.advertised
    finally:
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)
    assert outcome == done
    assert not (root / STATE / SOCKET).exists()
    withdrawn = {slot.id: slot.reason for shown in done["offer"] for slot in shown.slots if not slot.healthy}
    assert withdrawn == {f"GPU-0::{i}": "held as nvidia.com/gpu" for i in range(4)}
    assert done["labels"]["nvidia.com/gpu.replicas"] == "4"
    assert {each["memoryUsedMiB"] for each in done["status"]["devices"]} >= {0, 4096}


def test_every_topic_of_the_board_is_in_a_dump() -> None:
    assert BoardFacts.__struct_fields__ == tuple(field.name for field in fields(NodeBoard))


async def test_a_dump_read_and_dumped_again_is_the_same_and_ages_count_on(root: Path) -> None:
    clock = VirtualClock()
    board = NodeBoard.blank(clock)
    board.node.publish(
        Node(metadata=ObjectMeta(name="n", labels={"a": "b"}), spec=NodeSpec(unschedulable=True))
    )
    board.config_confirmed.publish(value=True)
    wish = wish_for("nope", None, "ConfigMap a/b")
    board.mig_wish.publish(wish)
    await clock.advance(90.0)
    first = dump_in(dump_of(board, clock, node="n", agent="1"))
    assert (first.facts.config_confirmed.age_s, first.facts.offer.age_s) == (90.0, None)
    refused = first.facts.mig_wish.value
    assert refused is not None
    assert refused.refusal is not None
    assert wish.refusal is not None
    assert refused.refusal.message == wish.refusal.message
    again = dump_in(dump_of(board_of(first, clock), clock, node="n", agent="1"))
    assert again == first
    replayed = board_of(first, clock)
    await clock.advance(5.0)
    assert dump_in(dump_of(replayed, clock, node="n", agent="1")).facts.config_confirmed.age_s == 95.0


async def test_no_text_of_a_person_and_no_variable_of_a_hook_is_in_a_dump() -> None:
    clock = VirtualClock()
    board = NodeBoard.blank(clock)
    board.configuration.publish(
        ConfigInForce(PluginConfig(), ConfigChoice("password: hunter2", "cm", "default"))
    )
    board.mig_wish.publish(MigWish("all-1g.5gb", host=HostWork(services=("hunter2.service",))))
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
    board.node.publish(Node(metadata=ObjectMeta(name="n", annotations=annotations)))
    text = dump_of(board, clock, node="n", agent="1")
    assert b"hunter2" not in text
    config, wish = (json.loads(text)["facts"][name]["value"] for name in ("configuration", "mig_wish"))
    assert (config["choice"]["key"], wish["config"]) == ("default", "all-1g.5gb")


def test_every_fact_of_the_board_is_in_a_dump() -> None:
    assert list(BoardFacts.__struct_fields__) == [each.name for each in fields(NodeBoard)]


def test_the_schema_is_the_one_of_the_reference() -> None:
    assert json.loads(FILE.read_text()) == dump_schema(), "python -m scripts.dump_schema"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "truncated"),
        (b'{"version": 1}', "missing required field"),
        (b"[]", "Expected `object`"),
    ],
    ids=["cut", "without facts", "no object"],
)
def test_what_is_no_dump_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        dump_in(text)


def test_a_dump_of_another_version_is_refused() -> None:
    clock = VirtualClock()
    dump = json.loads(dump_of(NodeBoard.blank(clock), clock, node="n", agent="1"))
    dump["version"] = VERSION + 1
    with pytest.raises(ValueError, match=f"version {VERSION + 1}, not {VERSION}"):
        dump_in(json.dumps(dump).encode())


@pytest.mark.parametrize(
    "refusal",
    [None, ClaimDriverRegistered(message="another driver", socket="/a.sock")],
    ids=["claims are served", "another driver is there"],
)
def test_claims_are_replayed_with_what_keeps_them_from_being_served(refusal: ServingReason | None) -> None:
    clock = VirtualClock()
    board = NodeBoard.blank(clock)
    board.claims.publish(ClaimOffer((), refusal, "the gate is off"))
    dump = dump_of(board, clock, node="n", agent="1")
    assert board_of(dump_in(dump), clock).claims.value == ClaimOffer((), refusal, "the gate is off")


def test_a_dump_with_a_reason_that_nobody_gives_is_refused() -> None:
    clock = VirtualClock()
    board = NodeBoard.blank(clock)
    board.claims.publish(ClaimOffer((), ClaimDriverRegistered(message="a", socket="b")))
    dump = dump_of(board, clock, node="n", agent="1").replace(b"claim-driver-registered", b"x")
    with pytest.raises(ValueError, match="no reason of the driver for claims: 'x'"):
        board_of(dump_in(dump), clock)
