"""MIG devices that do not exist yet: every place where a GPU could have one, with the counters that it takes.

Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.5 (DynamicMIG), KEP-4815 (partitionable devices).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from typing import Final

from tonnage.decide.node.claims.engines import COUNTERS, engines_of, most_engines, size_of
from tonnage.decide.node.claims.quantities import quantity_of
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.mig import MigModel, MigProfile, device_mib, mig_model
from tonnage.model.devices.claims import ClaimCounters, Partition, PublishedDevice
from tonnage.model.devices.inventory import Device
from tonnage.model.mig.profile_names import parse_profile

_EXTENSION: Final = "+me"


def part_name(gpu: PublishedDevice, profile: str, number: int | None, start: int) -> str:
    """NVIDIA's name of a MIG device: its GPU's, the profile with the driver's number, the first memory slice.

    >>> part_name(PublishedDevice("gpu-0", "GPU-a"), "1g.5gb+me", 20, 4)
    'gpu-0-mig-1g5gbme-20-4'
    """
    plain = "".join(character for character in profile.lower() if character.isalnum())
    return f"{gpu.name}-mig-{plain}-{number}-{start}"


def partitions_of(
    device: Device, gpu: PublishedDevice, existing: Iterable[PublishedDevice], made: Set[Partition]
) -> Iterator[PublishedDevice]:
    """What may be claimed of a GPU in MIG mode. `existing` are its MIG devices by their names.

    One that was `made` for a claim is in its place as if it did not exist, so that what is published stays
    the same. Another one can be claimed as it is, and excludes those that would need its memory slices.
    """
    model = mig_model(device.product, [mig.profile for mig in device.migs])
    if model is None:
        yield replace(gpu, unfit="the catalogue does not know which MIG devices it can have")
        return
    own = {(part.profile, part.start) for part in made if part.gpu == device.uuid}
    others = [
        (mig, mig.placement or (0, model.memory))
        for mig in device.migs
        if mig.placement is None or (mig.profile, mig.placement[0]) not in own
    ]
    standing = {part.uuid: part for part in existing}
    counters = _counters(device, gpu, model)
    for profile in model.profiles.values():
        for start in profile.starts:
            here = set(range(start, start + profile.memory))
            same = next(
                (mig for mig, place in others if (mig.profile, place[0]) == (profile.name, start)), None
            )
            occupant = next((mig for mig, (at, size) in others if here & set(range(at, at + size))), None)
            if same is not None:
                part = standing[same.uuid]
            else:
                part = _absent(device, gpu, profile, start, model)
                if occupant is not None:
                    part = replace(part, unfit=f"{occupant.uuid} is in its place, which no claim made")
            consumes = _consumed(device, profile, start, part.capacity["memory"], model)
            yield replace(part, counters=counters, consumes=consumes)


def _absent(
    device: Device, gpu: PublishedDevice, profile: MigProfile, start: int, model: MigModel
) -> PublishedDevice:
    size = size_of(device, profile.number)
    unfit = ""
    if profile.number is None:
        unfit = "the driver's number of its profile is unknown"
    elif size is None and device.profile_sizes:
        unfit = "the driver does not offer its profile"
    texts = {key: text for key, text in gpu.texts.items() if key not in ("type", "uuid")}
    mib = size.memory_mib if size is not None else _catalogued_mib(device, profile, model)
    return replace(
        gpu,
        name=part_name(gpu, profile.name, profile.number, start),
        uuid="",
        texts={"type": "mig", "parentUUID": device.uuid, "profile": profile.name, **texts},
        capacity={"memory": quantity_of(mib), **(engines_of(size) if size is not None else {})},
        unfit=unfit,
        partition=Partition(device.uuid, profile.name, start, profile.memory),
    )


def _catalogued_mib(device: Device, profile: MigProfile, model: MigModel) -> int:
    key = next(
        (gpu_model.key for gpu_model in gpu_models().values() if gpu_model.product == device.product), ""
    )
    return device_mib(model, key, device.memory_mib, parse_profile(profile.name))


def _counters(device: Device, gpu: PublishedDevice, model: MigModel) -> ClaimCounters:
    """All that a GPU has to give. Of engines that the driver does not tell of, those count of which a model
    has too few for every layout.
    """
    values = {f"memory-slice-{place}": "1" for place in range(model.memory)}
    values["memory"] = quantity_of(device.memory_mib)
    if device.profile_sizes:
        values |= {COUNTERS[name]: count for name, count in most_engines(device).items()}
    else:
        if model.media:
            values["decoders"] = str(model.media)
        if model.flow or any(_EXTENSION in name for name in model.profiles):
            values["ofa-engines"] = str(model.flow or 1)
    return ClaimCounters(f"{gpu.name}-counter-set", tuple(sorted(values.items())))


def _consumed(
    device: Device, profile: MigProfile, start: int, memory: str, model: MigModel
) -> dict[str, str]:
    values = {f"memory-slice-{place}": "1" for place in range(start, start + profile.memory)}
    values["memory"] = memory
    if (size := size_of(device, profile.number)) is not None:
        return values | {COUNTERS[name]: count for name, count in engines_of(size).items()}
    if model.media and profile.media:
        values["decoders"] = str(profile.media)
    flow = profile.flow if model.flow else int(_EXTENSION in profile.name)
    if flow:
        values["ofa-engines"] = str(flow)
    return values
