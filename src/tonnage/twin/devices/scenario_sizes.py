"""What MIG devices of pretended boards have beside memory, as `nvidia-smi mig -lgip` of such boards says.

Source: NVIDIA MIG user guide, A100 and H100; other boards are counted by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from tonnage.model.catalog.gpus import GpuModel
from tonnage.model.catalog.mig import MigModel, MigProfile, device_mib, mig_model
from tonnage.model.devices.inventory import ProfileSize
from tonnage.model.mig.profile_names import parse_profile

_MULTIPROCESSORS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {"8.0": (14, 98), "9.0": (16, 132), "10.0": (18, 148)}
)
"""Of a compute slice and of all slices, by compute capability."""
_MORE: Final[Mapping[tuple[str, int, int], int]] = MappingProxyType({("9.0", 1, 2): 26, ("9.0", 3, 4): 60})
"""Of profiles that have more than their compute slices, which leave those of others unused."""
_A100: Final = "8.0"
_DECODERS: Final = 5
"""Of a whole A100."""


@cache
def profile_sizes(model: GpuModel) -> Mapping[int, ProfileSize]:
    """By the driver's number of each profile; empty for a board of which nobody has told."""
    board = mig_model(model.product)
    if board is None or model.compute_capability not in _MULTIPROCESSORS:
        return MappingProxyType({})
    return MappingProxyType(
        {
            profile.number: _size(model, board, profile)
            for profile in board.profiles.values()
            if profile.number is not None
        }
    )


def _size(model: GpuModel, board: MigModel, profile: MigProfile) -> ProfileSize:
    capability, whole = model.compute_capability, profile.compute == board.compute
    of_a_slice, all_of_them = _MULTIPROCESSORS[capability]
    media = int(whole or "+me" in profile.name)
    decoders = profile.compute
    if capability == _A100:
        decoders = _DECODERS if whole else max(profile.memory // 2, media)
    usual = all_of_them if whole else of_a_slice * profile.compute
    return ProfileSize(
        memory_mib=device_mib(board, model.key, model.memory_mib, parse_profile(profile.name)),
        multiprocessors=_MORE.get((capability, profile.compute, profile.memory), usual),
        copy_engines=profile.compute,
        decoders=decoders,
        jpeg_engines=media if capability == _A100 else decoders,
        optical_flow_engines=media,
    )
