"""Jobs of an HPC scheduler: files named after GPUs, one job a line (dcgm-exporter: HPC job mapping)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tonnage.decide.node.exporter.holders import DeviceKey
from tonnage.model.node.telemetry import DeviceEntity, InstanceEntity


def jobs_of(
    files: Mapping[str, str], entities: Iterable[DeviceEntity]
) -> Mapping[DeviceKey, tuple[str, ...]]:
    """Jobs by device, from name -> content of the files.

    A file `0` is of GPU 0, `2.1` of GPU instance 1 of GPU 2. Empty lines are left out, which dcgm-exporter
    takes for jobs.
    """
    jobs: dict[DeviceKey, tuple[str, ...]] = {}
    for entity in entities:
        gpu = entity.gpu if isinstance(entity, InstanceEntity) else entity
        instance = entity.gpu_instance if isinstance(entity, InstanceEntity) else None
        name = str(gpu.index) if instance is None else f"{gpu.index}.{instance}"
        lines = (line.removesuffix("\r") for line in files.get(name, "").split("\n"))
        if named := tuple(line for line in lines if line.strip()):
            jobs[gpu.uuid, instance] = named
    return jobs
