"""What many objects have alike is kept once, and says what it said."""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.reading.shared_values import SharedNodes, SharedReports, SharedValues
from tonnage.wire.objects import Node, NodeGPUStatus


def from_json(text: str) -> Any:
    """Without a value in common with what another text became."""
    return msgspec.json.decode(text.encode())


DEVICE = '{"product": "NVIDIA H100 80GB HBM3", "links": [{"peers": [], "switches": true, "nvlinks": 18}]}'


def test_alike_values_become_the_same_one() -> None:
    values = SharedValues()
    first, second = from_json(DEVICE), from_json(DEVICE)
    assert first["product"] is not second["product"]
    assert values.of(first) is values.of(second)
    assert values.of(first) == from_json(DEVICE)


def test_values_that_are_equal_in_python_alone_stay_apart() -> None:
    values = SharedValues()
    texts = (
        "[1]",
        "[true]",
        "[1.0]",
        '["1"]',
        "[[]]",
        "[{}]",
        '{"a": 1}',
        '{"a": true}',
        '["a", 1]',
        "[null]",
    )
    kept = [msgspec.json.encode(values.of(from_json(text))).decode() for text in texts]
    assert kept == [text.replace(" ", "") for text in texts]


def test_what_a_fleet_has_once_is_not_remembered_for_ever() -> None:
    values = SharedValues()
    for number in range(20_000):
        values.of([f"GPU-{number}", {"uuid": f"GPU-{number}", "product": "a product"}])
    assert len(values) <= 5_000


def test_reports_have_in_common_what_they_say_alike() -> None:
    economise = SharedReports()
    text = f'{{"heartbeatAt": "t", "devices": [{DEVICE}, {{"uuid": "%s"}}]}}'
    first, second = (NodeGPUStatus(status=from_json(text % uuid)) for uuid in ("GPU-1", "GPU-2"))
    kept, other = economise(None, first), economise(None, second)
    assert (kept, other) == (first, second)
    assert kept.status["devices"][0] is other.status["devices"][0]


def test_a_heartbeat_has_its_parts_in_common_with_the_report_before() -> None:
    economise = SharedReports()
    before = economise(
        None, NodeGPUStatus(status=from_json(f'{{"heartbeatAt": "1", "devices": [{DEVICE}]}}'))
    )
    after = NodeGPUStatus(
        status=from_json(f'{{"heartbeatAt": "2", "devices": [{DEVICE}], "problems": ["x"]}}')
    )
    kept = economise(before, after)
    assert kept == after
    assert kept.status["devices"] is before.status["devices"]
    gone = economise(kept, NodeGPUStatus(status={"heartbeatAt": "3"}))
    assert gone.status == {"heartbeatAt": "3"}


def test_nodes_have_their_labels_and_amounts_in_common() -> None:
    economise = SharedNodes()
    text = (
        '{"metadata": {"name": "%s", "labels": {"nvidia.com/gpu.deploy.node-status-exporter": "true"}},'
        ' "status": {"capacity": {"cpu": "128"}, "nodeInfo": {"kernelVersion": "6.8.0-31-generic"}}}'
    )
    first, second = (msgspec.json.decode((text % name).encode(), type=Node) for name in ("a", "b"))
    kept, other = economise(None, first), economise(None, second)
    assert (kept, other) == (first, second)
    assert kept.metadata.labels is other.metadata.labels
    assert kept.status.capacity is other.status.capacity
    assert kept.status.node_info is other.status.node_info
