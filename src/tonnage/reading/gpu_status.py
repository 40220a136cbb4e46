"""`NodeGPUStatus` as model values. Every field is optional; one of the wrong shape counts as absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from tonnage.model.devices.links import PCI_WORDS
from tonnage.model.node.gpu_status import (
    SILENT_AFTER,
    ClaimReport,
    DeviceHolder,
    DeviceLinks,
    DevicePart,
    GpuDevice,
    GpuStatus,
)
from tonnage.model.node.software import UNKNOWN, KubeletPolicies, NodeSoftware, RuntimeInventory, Switch
from tonnage.model.validation import NodeStage, NodeValidation, Outcome, StageResult
from tonnage.reading.object_parts import moment
from tonnage.wire import objects as w

_LEVELS: Final = {word: level for level, word in PCI_WORDS.items()}
_SWITCHES: Final = {switch.value: switch for switch in Switch}
_STAGES: Final = frozenset(stage.value for stage in NodeStage)
_OUTCOMES: Final = frozenset(outcome.value for outcome in Outcome)
_MOST_NVLINKS: Final = 64
_BEATS: Final = frozenset({"heartbeatAt", "updatedAt"})


def gpu_status_from(status: w.NodeGPUStatus) -> GpuStatus:
    """What the agent of a node says."""
    body = status.status
    resources = tuple(_objects(body.get("resources")))
    return GpuStatus(
        node=status.metadata.name,
        devices=tuple(_device(device) for device in _objects(body.get("devices"))),
        heartbeat=moment(_text(body.get("heartbeatAt"))),
        problems=(*_refused_config(body.get("config")), *_texts(body.get("problems"))),
        replicas={_text(r.get("name")): _whole(r.get("replicas")) or 1 for r in resources},
        offered={_text(r.get("name")): n for r in resources if (n := _whole(r.get("capacity"))) is not None},
        single_requests=frozenset(
            _text(r.get("name")) for r in resources if r.get("failRequestsGreaterThanOne") is True
        ),
        mps={_text(r.get("name")): _silence(r) for r in resources if r.get("sharing") == "mps"},
        software=_software(body.get("runtime"), body.get("kubelet")),
        free={_text(r.get("name")): _free(r) for r in resources},
        validation=validation_from(body.get("validation")),
        config=_source(body.get("config")),
        driver=_text(body.get("driverVersion")),
        cuda=_text(body.get("cudaVersion")),
        claims=claims_from(body.get("claims")),
        fabric_waits_since=moment(_text(body.get("fabricWaitsSince"))),
    )


def heartbeat_of(report: w.NodeGPUStatus) -> datetime | None:
    """When the agent last looked; None: it does not say."""
    return moment(_text(report.status.get("heartbeatAt")))


def is_news(before: w.NodeGPUStatus | None, after: w.NodeGPUStatus | None) -> bool:
    """Whether a change says more than that the agent lives: a fleet's heartbeats never end.

    One that comes after a silence is news.
    """
    if before is None or after is None:
        return True
    last, now = heartbeat_of(before), heartbeat_of(after)
    if last is None or now is None or now - last > SILENT_AFTER:
        return True
    return _without_beats(before.status) != _without_beats(after.status)


def _without_beats(status: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in status.items() if name not in _BEATS}


def claims_from(value: object) -> ClaimReport | None:
    """What a report says of claims."""
    if not isinstance(value, dict):
        return None
    devices = tuple(_objects(value.get("devices")))
    return ClaimReport(
        _text(value.get("driver")),
        {uuid: _text(device.get("name")) for device in devices if (uuid := _text(device.get("uuid")))},
        {_text(device.get("name")): why for device in devices if (why := _text(device.get("reason")))},
        _text(value.get("reason")),
        tuple(_text(device.get("name")) for device in devices if not device.get("uuid")),
    )


def _software(runtime: object, kubelet: object) -> NodeSoftware:
    runtime_fields: Mapping[str, object] = runtime if isinstance(runtime, dict) else {}
    says: Mapping[str, object] = kubelet if isinstance(kubelet, dict) else {}
    return NodeSoftware(
        RuntimeInventory(
            name=_word(runtime_fields.get("name")),
            version=_word(runtime_fields.get("version")),
            cdi=_SWITCHES.get(_text(runtime_fields.get("cdi")), Switch.UNKNOWN),
            cdi_reason=_text(runtime_fields.get("cdiReason")),
            nri=_SWITCHES.get(_text(runtime_fields.get("nri")), Switch.UNKNOWN),
            nri_reason=_text(runtime_fields.get("nriReason")),
        ),
        _word(says.get("version")),
        KubeletPolicies(
            _word(says.get("topologyManagerPolicy")),
            _word(says.get("topologyManagerScope")),
            _word(says.get("cpuManagerPolicy")),
            _word(says.get("memoryManagerPolicy")),
            _texts(says.get("sources")),
            _text(says.get("reason")),
        ),
    )


def _word(value: object) -> str:
    return _text(value) or UNKNOWN


def _silence(resource: Mapping[str, object]) -> str:
    """Why a resource's MPS daemon does not serve; empty when it does."""
    mps = resource.get("mps")
    if not isinstance(mps, dict):
        return "not started yet"
    return "" if mps.get("ready") is True else _text(mps.get("reason")) or "not ready"


def _free(resource: Mapping[str, object]) -> int:
    return (_whole(resource.get("allocatable")) or 0) - (_whole(resource.get("allocated")) or 0)


def validation_from(value: object) -> NodeValidation:
    """What the controller wrote; a stage or an outcome of another release counts as absent."""
    body: Mapping[str, object] = value if isinstance(value, dict) else {}
    stages = tuple(
        StageResult(NodeStage(stage), Outcome(outcome), _text(stage_result.get("message")))
        for stage_result in _objects(body.get("stages"))
        if (stage := _text(stage_result.get("stage"))) in _STAGES
        and (outcome := _text(stage_result.get("outcome"))) in _OUTCOMES
    )
    return NodeValidation(_text(body.get("subject")), stages, moment(_text(body.get("ranAt"))))


def _refused_config(config: object) -> Iterator[str]:
    if isinstance(config, dict) and _text(config.get("error")):
        yield f"configuration refused, {_source(config) or 'the last good one'} kept: {config['error']}"


def _source(config: object) -> str:
    return _text(config.get("source")) if isinstance(config, dict) else ""


def _device(device: Mapping[str, object]) -> GpuDevice:
    return GpuDevice(
        uuid=_text(device.get("uuid")),
        product=_text(device.get("product")),
        index=_whole(device.get("index")),
        resource=_text(device.get("resource")),
        replicas=_whole(device.get("replicas")) or 1,
        memory_mib=_whole(device.get("memoryMiB")) or 0,
        used_mib=_whole(device.get("memoryUsedMiB")),
        healthy=device.get("health") != "Unhealthy",
        reason=_text(device.get("reason")),
        holders=tuple(_holder(holder) for holder in _objects(device.get("holders"))),
        compute_capability=_text(device.get("computeCapability")),
        pci_bus_id=_text(device.get("pciBusID")),
        numa_node=_whole(device.get("numaNode")),
        links=links_from(device.get("links")),
        parts=parts_from(device.get("migDevices")),
        mig_enabled=device.get("migEnabled") is True,
        fabric=_text(device.get("fabric")),
    )


def parts_from(value: object) -> tuple[DevicePart, ...]:
    """A device's MIG devices, as they stand in a report."""
    return tuple(_part(part) for part in _objects(value))


def _part(part: Mapping[str, object]) -> DevicePart:
    placement = part.get("placement")
    start = placement.get("start") if isinstance(placement, dict) else None
    return DevicePart(
        start=_whole(start),
        memory_mib=_whole(part.get("memoryMiB")) or 0,
        uuid=_text(part.get("uuid")),
        profile=_text(part.get("profile")),
        resource=_text(part.get("resource")),
        healthy=part.get("health") != "Unhealthy",
        reason=_text(part.get("reason")),
    )


def links_from(value: object) -> tuple[DeviceLinks, ...]:
    """A device's links, as they stand in a report."""
    return tuple(_links(link) for link in _objects(value))


def _links(links: Mapping[str, object]) -> DeviceLinks:
    peers = links.get("peers")
    return DeviceLinks(
        peers=tuple(i for i in map(_whole, peers) if i is not None) if isinstance(peers, list) else (),
        switches=links.get("switches") is True,
        nvlinks=min(max(_whole(links.get("nvlinks")) or 0, 0), _MOST_NVLINKS),
        level=_LEVELS.get(_text(links.get("path"))),
    )


def _holder(holder: Mapping[str, object]) -> DeviceHolder:
    return DeviceHolder(
        namespace=_text(holder.get("namespace")),
        pod=_text(holder.get("pod")),
        container=_text(holder.get("container")),
        resource=_text(holder.get("resource")),
        ids=_texts(holder.get("ids")),
    )


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    return (
        (element for element in value if isinstance(element, dict)) if isinstance(value, list) else iter(())
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(element) for element in value) if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
