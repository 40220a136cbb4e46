"""How a node stands to its MIG layout, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.decide.node.mig.change import MigChange
from tonnage.model.errors import ConfigError, HardwareError, TonnageError
from tonnage.model.mig.layouts import DividedGpu
from tonnage.model.reasons.gpu.mig import MigObstacle
from tonnage.ports.node import DeviceReader

_MOST_PROBLEMS: Final = 5


async def what_stands(change: MigChange, hardware: DeviceReader) -> str:
    """What the change's GPUs are divided into now."""
    try:
        gpus = {gpu.uuid: gpu for gpu in await hardware.divided()}
    except (HardwareError, ConfigError) as error:
        return f"Tonnage cannot read the current MIG layout: {words(error)}"
    return "; ".join(_stands(shape.uuid, gpus.get(shape.uuid)) for shape in change.goal)


def words(error: TonnageError) -> str:
    """The first problem in one line."""
    problem = error.problems[0]
    return ": ".join(part for part in (problem.what, problem.why, problem.remedy) if part)


def places(error: TonnageError) -> str:
    """The first problems in one line, each with its place."""
    texts = [
        ": ".join(part for part in (problem.where, problem.what, problem.why, problem.remedy) if part)
        for problem in error.problems[:_MOST_PROBLEMS]
    ]
    more = len(error.problems) - len(texts)
    return "; ".join([*texts, f"and {more} more"] if more else texts)


def _stands(uuid: str, gpu: DividedGpu | None) -> str:
    if gpu is None:
        return f"{uuid} does not answer"
    parts = [
        f"{instance.profile} at {instance.start}"
        for instance in sorted(gpu.instances, key=lambda instance: instance.start)
    ]
    mode = "on" if gpu.enabled else "off"
    return f"{uuid} has MIG {mode}, {', '.join(parts) or 'no instance'}"


def followed_by(first: MigObstacle, then: MigObstacle) -> MigObstacle:
    """The second, with the words of both."""
    return replace(then, message=f"{first.message}; {then.message}")


def words_of(refusal: MigObstacle | None) -> str:
    """What a refusal says; empty without one."""
    return refusal.message if refusal is not None else ""


def uuids(change: MigChange) -> str:
    """The GPUs of a change."""
    return ", ".join(shape.uuid for shape in change.goal)
