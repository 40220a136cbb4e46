"""Keys and values of NVIDIA's labels of nodes, as GPU feature discovery and the MIG manager write them."""

from __future__ import annotations

import difflib
import re
from typing import Final

from tonnage.decide.node.labels.gpu import FAMILIES
from tonnage.model.names import MIG_STATE_LABEL, NVIDIA

_BOOLEAN: Final = ("true", "false")
_VALUES: Final = {
    "gpu.present": ("true",),
    "gpu.family": tuple(sorted(FAMILIES)),
    "gpu.mode": ("compute", "graphics", "unknown"),
    "gpu.sharing-strategy": ("none", "time-slicing", "mps"),
    "mig.capable": _BOOLEAN,
    "mig.strategy": ("single", "mixed"),
    "mps.capable": _BOOLEAN,
    "vgpu.present": _BOOLEAN,
    MIG_STATE_LABEL.removeprefix(f"{NVIDIA}/"): ("success", "failed", "pending", "rebooting"),
}
_COUNTS: Final = ("gpu.count", "gpu.replicas", "gpu.memory", "gpu.compute.major", "gpu.compute.minor",
                  "cuda.driver-version.major", "cuda.runtime-version.major", "cuda.driver.major",
                  "cuda.driver.minor", "cuda.runtime.major", "cuda.runtime.minor",
                  "gpu.multiprocessors", "gpu.slices.gi", "gpu.slices.ci", "gpu.engines.copy",
                  "gpu.engines.decoder", "gpu.engines.encoder", "gpu.engines.jpeg",
                  "gpu.engines.ofa")  # fmt: skip
_OTHERS: Final = ("gpu.product", "gpu.machine", "gpu.clique", "mig.config", "device-plugin.config",
                  "cuda.driver-version.full", "cuda.driver-version.minor", "cuda.driver-version.revision",
                  "cuda.runtime-version.full", "cuda.runtime-version.minor", "cuda.driver.rev",
                  "vgpu.host-driver-version", "vgpu.host-driver-branch", "gfd.timestamp")  # fmt: skip
_KEYS: Final = (*_VALUES, *_COUNTS, *_OTHERS)
_OF_PROFILE: Final = re.compile(r"mig-[0-9]g\.[0-9]{1,3}gb(?:\.[a-z0-9.+]{1,12})?\.(.+)")
_SIMILAR: Final = 0.85


def label_name(key: str) -> str:
    """A key of NVIDIA's without its prefix, that of a MIG profile as the same of a GPU; else empty.

    >>> label_name("nvidia.com/gpu.family"), label_name("nvidia.com/mig-1g.10gb.count"), label_name("zone")
    ('gpu.family', 'gpu.count', '')
    """
    prefix, _, name = key.partition("/")
    match = _OF_PROFILE.fullmatch(name)
    if prefix != NVIDIA:
        return ""
    return f"gpu.{match[1]}" if match else name


def label_values(name: str) -> tuple[str, ...]:
    """All values of a label, where they are few; nothing where many are possible."""
    return _VALUES.get(name, ())


def is_count(name: str) -> bool:
    """Whether the values of a label are whole numbers."""
    return name in _COUNTS


def intended_key(name: str) -> str:
    """The label's name that one letter or two are missing to; empty for names that are known or like none.

    >>> intended_key("gpu.famly"), intended_key("gpu.family"), intended_key("gpu.team")
    ('gpu.family', '', '')
    """
    if not name or name in _KEYS:
        return ""
    return next(iter(difflib.get_close_matches(name, _KEYS, n=1, cutoff=_SIMILAR)), "")
