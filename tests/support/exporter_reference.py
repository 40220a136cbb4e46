"""What dcgm-exporter prints for a case, by its README's words alone, with nothing of Tonnage's own code.

`mended` is the same with the differences that `docs/reference/exporter.md` lists. Only the group of GPUs, and
no counts over windows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Case = Mapping[str, Any]
Row = dict[str, str]
BY_PROCESS = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED")
NOT_AVAILABLE = (1 << 64) - 1
UID = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
ATTRIBUTES = {"pod_uid", "vgpu", "hpc_job", "err_code", "err_msg"}
NEW_NAMES = {"container", "namespace", "pod"}
OLD_NAMES = {"container_name", "pod_namespace", "pod_name"}


def covers(case: Case) -> bool:
    """Whether the reference speaks of such a case."""
    names = [row["field"] for row in case["counters"]]
    options = {"devices", "kubernetes-gpu-id-type"} & set(case.get("config", {}))
    return case["group"] == "GPU" and not options and not any(name.startswith("DCGM_EXP") for name in names)


def reference_page(case: Case, messages: Mapping[str, str], *, mended: bool) -> str:
    return "".join(_families(case, messages, mended))


def _families(case: Case, messages: Mapping[str, str], mended: bool) -> Iterator[str]:
    for counter in sorted(case["counters"], key=lambda row: row["id"]):
        if counter["type"] == "label" or (not case["profiling"] and 1000 <= counter["id"] < 1100):
            continue
        lines = list(_lines(case, counter["field"], messages, mended))
        if lines:
            text = counter["help"].replace("\\", "\\\\") if mended else counter["help"]
            yield f"# HELP {counter['field']} {text}\n# TYPE {counter['field']} {counter['type']}\n"
            yield from lines


def _lines(case: Case, field: str, messages: Mapping[str, str], mended: bool) -> Iterator[str]:
    config = case.get("config", {})
    virtual = config.get("kubernetes") and config.get("kubernetes-virtual-gpus")
    for device, instance in _entities(case):
        sample = _sample(case, device, instance, field)
        if sample is None:
            continue
        number = sample["value"] if sample["type"] == "int64" else f"{float(sample['value']):.6f}"
        xid: Row = {}
        if field == "DCGM_FI_DEV_XID_ERRORS":
            xid = {"err_code": number, "err_msg": messages.get(number, "Unknown Error")}
        holders = _holders(case, device, instance, mended) if config.get("kubernetes") else []
        sorted_labels = _label_counters(case, device, instance, mended)
        rows: list[tuple[Row, Row, str]] = []
        if virtual and field in BY_PROCESS:
            rows.append((sorted_labels, {}, number))
            for holder in holders:
                amount = _amount(case, device, instance, field, holder, mended)
                if amount is not None:
                    attributes = _attributes(case, holder) | {"pod_uid": _uid(case, holder)}
                    rows.append((_with_pod(case, sorted_labels, holder, mended), attributes, amount))
        elif holders:
            for holder in holders:
                labels = _with_pod(case, sorted_labels, holder, mended)
                rows.append((labels, _attributes(case, holder), number))
        else:
            rows.append((sorted_labels, {}, number))
        for labels, attributes, value in rows:
            jobs: list[Row] = [{"hpc_job": job} for job in _jobs(case, device, instance, mended)]
            for of_job in jobs or [{}]:
                text = _text(case, device, instance, labels, attributes | xid | of_job, mended)
                yield f"{field}{{{text}}} {value}\n"


def _entities(case: Case) -> Iterator[tuple[Any, Any]]:
    for device in case["devices"]:
        yield from ((device, instance) for instance in device.get("instances") or [None])


def _sample(case: Case, device: Any, instance: Any, field: str) -> Any:
    gi = None if instance is None else instance["gi"]
    for sample in case["samples"]:
        if (sample.get("gpu"), sample.get("gi"), sample["field"]) == (device["gpu"], gi, field):
            return None if sample["value"] is None else sample
    return None


def _label_counters(case: Case, device: Any, instance: Any, mended: bool) -> Row:
    labels: Row = {}
    for counter in case["counters"]:
        sample = _sample(case, device, instance, counter["field"]) if counter["type"] == "label" else None
        if sample is not None and not (mended and sample["value"] == "<<<NOT_PERM>>>"):
            is_double = sample["type"] == "double"
            labels[counter["field"]] = f"{float(sample['value']):.6f}" if is_double else sample["value"]
    return labels


def _holders(case: Case, device: Any, instance: Any, mended: bool) -> list[Row]:
    listed = case.get("podResources") or {"podResources": []}
    config = case["config"]
    names = config.get("nvidia-resource-names", ())
    own = {device["uuid"]} if instance is None else _uuids(case, instance)
    found: list[Row] = []
    for pod in listed["podResources"]:
        for container in pod["containers"]:
            for entry in container.get("devices") or ():
                resource = entry["resourceName"]
                counts = (
                    resource == "nvidia.com/gpu"
                    or resource.startswith("nvidia.com/mig-")
                    or resource in names
                )
                carried = ""
                for text in entry["deviceIds"] if counts else ():
                    uuid, _, replica = text.partition("::")
                    carried = replica if mended or replica else carried
                    if uuid in own:
                        row = {
                            "namespace": pod["namespace"],
                            "pod": pod["name"],
                            "container": container["name"],
                        }
                        found.append(row | ({"vgpu": carried} if carried else {}))
    if config.get("kubernetes-virtual-gpus"):
        return list({tuple(row.items()): row for row in found}.values()) if mended else found
    if not mended:
        return [{name: value for name, value in row.items() if name != "vgpu"} for row in found[-1:]]
    if len({(row["namespace"], row["pod"]) for row in found}) != 1:
        return []
    containers = {row["container"] for row in found}
    row = {name: found[0][name] for name in ("namespace", "pod")}
    return [row | ({"container": next(iter(containers))} if len(containers) == 1 else {})]


def _uuids(case: Case, instance: Any) -> set[str]:
    return {device["uuid"] for device in instance["devices"]} if case.get("nvml", True) else set()


def _pod(case: Case, holder: Row) -> Any:
    for pod in case.get("pods") or ():
        if (pod["namespace"], pod["name"]) == (holder["namespace"], holder["pod"]):
            return pod
    return None


def _uid(case: Case, holder: Row) -> str:
    pod = _pod(case, holder)
    return "" if pod is None else str(pod["uid"])


def _attributes(case: Case, holder: Row) -> Row:
    attributes = dict(holder)
    if case["config"].get("kubernetes-enable-pod-uid"):
        attributes["pod_uid"] = _uid(case, holder)
    return attributes


def _with_pod(case: Case, labels: Row, holder: Row, mended: bool) -> Row:
    """Pod labels beside label counters; one named as an attribute is dropped."""
    config, pod = case["config"], _pod(case, holder)
    if not config.get("kubernetes-enable-pod-labels") or pod is None:
        return labels
    if config.get("kubernetes-virtual-gpus") and not mended:
        return labels
    patterns = config.get("kubernetes-pod-label-allowlist-regex")
    chosen: Row = {}
    for name, value in pod["labels"].items():
        if patterns is None or any(_matches(pattern, name) for pattern in patterns):
            cleaned = re.sub(r"[^a-zA-Z0-9_]", "_", name)
            if mended and cleaned[0].isdigit():
                cleaned = f"_{cleaned}"
            chosen[cleaned] = value
    own = {
        "gpu",
        "UUID",
        "uuid",
        "pci_bus_id",
        "device",
        "modelName",
        "GPU_I_PROFILE",
        "GPU_I_ID",
        "hostname",
    }
    dropped = ATTRIBUTES | (OLD_NAMES if config.get("use-old-namespace") else NEW_NAMES)
    dropped |= (own | set(labels)) if mended else set()
    return labels | {name: value for name, value in chosen.items() if name not in dropped}


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


def _amount(case: Case, device: Any, instance: Any, field: str, holder: Row, mended: bool) -> str | None:
    """The sum over the pod's processes; bytes are cut to MiB each."""
    uid, processes = _uid(case, holder), case.get("processes") or {}
    blind = not uid or not case.get("nvml", True)
    memory = field == "DCGM_FI_DEV_FB_USED"
    if mended and (blind or (instance is not None and not memory)):
        return None
    if blind:
        return "0"
    if instance is None:
        kind = "memory" if memory else "utilization"
        by_pid = processes.get(kind, {}).get(device["uuid"], {})
    else:
        by_pid = processes.get("migMemory", {}).get(device["uuid"], {}).get(str(instance["gi"]), {})
        by_pid = by_pid if memory else {}
    total = 0
    for pid, amount in by_pid.items():
        match = UID.search(processes.get("cgroups", {}).get(pid, ""))
        if match is not None and match[1].replace("_", "-") == uid:
            if mended and memory and amount == NOT_AVAILABLE:
                return None
            total += amount >> 20 if memory else amount
    return str(total)


def _jobs(case: Case, device: Any, instance: Any, mended: bool) -> list[str]:
    name = str(device["gpu"]) if instance is None else f"{device['gpu']}.{instance['gi']}"
    content = (case.get("hpc") or {}).get(name)
    if content is None:
        return []
    lines = [line.removesuffix("\r") for line in content.removesuffix("\n").split("\n")]
    lines = lines if content else []
    return [line for line in lines if line.strip()] if mended else lines


def _text(case: Case, device: Any, instance: Any, labels: Row, attributes: Row, mended: bool) -> str:
    config = case.get("config", {})
    old = config.get("use-old-namespace")
    model = (
        "-".join(device["model"].split()) if config.get("replace-blanks-in-model-name") else device["model"]
    )
    fixed = {
        "gpu": str(device["gpu"]),
        "uuid" if old else "UUID": device["uuid"],
        "pci_bus_id": device["pciBusId"],
        "device": f"nvidia{device['gpu']}",
        "modelName": model,
    }
    if instance is not None:
        fixed |= {"GPU_I_PROFILE": instance["profile"], "GPU_I_ID": str(instance["gi"])}
    if case.get("hostname"):
        fixed["hostname"] = case["hostname"]
    if old:
        names = {"container": "container_name", "namespace": "pod_namespace", "pod": "pod_name"}
        attributes = {names.get(name, name): value for name, value in attributes.items()}
    pairs = [*fixed.items(), *sorted(labels.items()), *sorted(attributes.items())]
    return ",".join(f'{name}="{_escaped(value) if mended else value}"' for name, value in pairs)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
