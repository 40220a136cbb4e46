"""Configurations of mig-parted, and what the command line answers about them."""

from __future__ import annotations

CONFIGS = """\
version: v1
mig-configs:
  all-1g.10gb:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
  all-balanced:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 2, 2g.20gb: 1, 3g.40gb: 1}}
  mixed-workload:
  - {devices: [0], mig-enabled: false}
  - device-filter: ["0x20B210DE"]
    devices: [1, 2, 3]
    mig-enabled: true
    mig-devices: {2g.20gb: 3, 1g.10gb: 1}
  twice:
  - {devices: all, mig-enabled: false}
  - {devices: [1], mig-enabled: true, mig-devices: {7g.80gb: 1}}
  beyond:
  - {devices: [0, 9], mig-enabled: true, mig-devices: {7g.80gb: 1}}
"""


def part(profile: str, start: int, uuid: str) -> dict[str, object]:
    return {"uuid": uuid, "profile": profile, "placement": {"start": start, "size": 1}, "memoryMiB": 9856}


def holder(pod: str, *ids: str) -> dict[str, object]:
    return {
        "namespace": "ml",
        "pod": pod,
        "container": "c",
        "resource": "nvidia.com/mig-1g.10gb",
        "ids": [*ids],
    }
