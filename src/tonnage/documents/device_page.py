"""A page of device metrics, as an agent or a dcgm-exporter serves it: Prometheus' text format, version 0.0.4.

DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-6a1f",modelName="Tesla T4",pod="train",namespace="ml"} 97
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from tonnage.model.errors import Problem
from tonnage.model.node.device_usage import DevicePage, DeviceReading, PodReading

MOST_BYTES: Final = 16 << 20
_MOST_ROWS: Final = 100_000
_ROW: Final = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)\{(?P<labels>.*)\} (?P<value>[^ ]{1,40})( [0-9]+)?"
)
_LABEL: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)",?')
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final[Mapping[str, str]] = MappingProxyType({"n": "\n", "\\": "\\", '"': '"'})
_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "DCGM_FI_DEV_GPU_UTIL": "utilization",
        "DCGM_FI_DEV_GPU_UTIL_RATIO": "utilization",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "engine_ratio",
        "DCGM_FI_DEV_FB_USED": "used_mib",
        "DCGM_FI_DEV_FB_FREE": "free_mib",
        "DCGM_FI_DEV_FB_RESERVED": "reserved_mib",
        "DCGM_FI_DEV_POWER_USAGE": "power_w",
        "DCGM_FI_DEV_BOARD_POWER_WATTS": "power_w",
        "DCGM_FI_DEV_GPU_TEMP": "temperature_c",
        "DCGM_FI_DEV_GPU_TEMP_CELSIUS": "temperature_c",
        "DCGM_FI_DEV_SM_CLOCK": "clock_mhz",
        "DCGM_FI_DEV_XID_ERRORS": "xid",
        "DCGM_FI_DEV_XID_ERROR": "xid",
    }
)
"""What a metric is called here, under its names up to DCGM 4.5 and since."""
_OF_PODS: Final[Mapping[str, str]] = MappingProxyType(
    {"tonnage_pod_gpu_compute_ratio": "compute_ratio", "tonnage_pod_gpu_memory_bytes": "memory_bytes"}
)


def parse_page(text: str, where: str) -> DevicePage | Problem:
    """The devices and pods of a page. Rows of other metrics, and rows without a device, are left out.

    >>> page = parse_page('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",Hostname="n"} 41', "x")
    >>> page.devices[0].temperature_c, page.host
    (41.0, 'n')
    """
    if len(text) > MOST_BYTES:
        return Problem("the page is too large", where, f"at most {MOST_BYTES >> 20} MiB are read")
    devices: dict[tuple[str, str], dict[str, Any]] = {}
    pods: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    host = ""
    for number, (name, labels, value) in enumerate(_rows(text)):
        if number >= _MOST_ROWS:
            return Problem("the page is too large", where, f"at most {_MOST_ROWS} rows are read")
        uuid, instance = labels.get("UUID") or labels.get("uuid", ""), labels.get("GPU_I_ID", "")
        if not uuid:
            continue
        if name in _OF_PODS:
            pod = (labels.get("namespace", ""), labels.get("pod", ""), uuid, instance)
            fields = pods.setdefault(pod, {"attribution": labels.get("attribution", "")})
            fields[_OF_PODS[name]] = fields.get(_OF_PODS[name], 0.0) + value  # of each container
            continue
        host = host or labels.get("Hostname") or labels.get("hostname", "")
        device = devices.setdefault((uuid, instance), {"holders": {}, **_identity(labels)})
        device[_FIELDS[name]] = value
        if holder := labels.get("pod") or labels.get("pod_name"):
            space = labels.get("namespace") or labels.get("pod_namespace", "")
            device["holders"][f"{space}/{holder}"] = None
    return DevicePage(
        host,
        tuple(_device(uuid, instance, fields) for (uuid, instance), fields in devices.items()),
        tuple(PodReading(*key, **fields) for key, fields in pods.items()),
    )


def _rows(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Name, labels and value of each row that is of use; of one that is no row of the format none."""
    for line in text.splitlines():
        name = line.partition("{")[0]
        if name not in _FIELDS and name not in _OF_PODS:
            continue
        match = _ROW.fullmatch(line.rstrip())
        value = _number(match["value"]) if match is not None else None
        if match is not None and value is not None:
            labels = {key: _ESCAPE.sub(_unescaped, raw) for key, raw in _LABEL.findall(match["labels"])}
            yield name, labels, value


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[0])


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _identity(labels: Mapping[str, str]) -> dict[str, Any]:
    gpu = labels.get("gpu", "")
    index = int(gpu) if gpu.isascii() and gpu.isdigit() and len(gpu) < 5 else None
    return {
        "index": index,
        "product": labels.get("modelName", ""),
        "profile": labels.get("GPU_I_PROFILE", ""),
    }


def _device(uuid: str, instance: str, fields: Mapping[str, Any]) -> DeviceReading:
    parts = [fields.get(name) for name in ("used_mib", "free_mib", "reserved_mib")]
    engine = fields.get("engine_ratio")
    utilization = fields.get("utilization", None if engine is None else 100 * engine)
    return DeviceReading(
        uuid=uuid,
        instance=instance,
        index=fields["index"],
        product=fields["product"],
        profile=fields["profile"],
        utilization=utilization,
        used_mib=parts[0],
        memory_mib=None if parts[0] is None or parts[1] is None else sum(part or 0.0 for part in parts),
        power_w=fields.get("power_w"),
        temperature_c=fields.get("temperature_c"),
        clock_mhz=fields.get("clock_mhz"),
        xid=int(fields.get("xid") or 0),
        holders=tuple(fields["holders"]),
    )
