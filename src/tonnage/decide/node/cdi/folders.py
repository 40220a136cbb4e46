"""What comes of several CDI specs together, by the rules of container runtimes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject

Spec = tuple[str, int, JsonObject]
"""A valid spec: (path, rank of its folder, document)."""


def conflicts(specs: Iterable[Spec]) -> Mapping[str, tuple[Problem, ...]]:
    """By path: the devices of a spec that another of the same rank has, which no runtime gives then.

    A spec of a higher rank, which would win, does not end the conflict.
    """
    by_path: dict[str, list[Problem]] = {}
    for name, by_rank in _holders(specs).items():
        for path, number, other in _pairs(by_rank.values()):
            problem = Problem(
                f'conflicting device "{name}" (specs "{path}", "{other}")',
                f"{path} devices[{number}].name",
                "runtimes refuse both: 'unresolvable CDI devices'",
                "remove one of the two specs",
            )
            by_path.setdefault(path, []).append(problem)
    return {path: tuple(problems) for path, problems in by_path.items()}


def conflicting(specs: Iterable[Spec]) -> frozenset[str]:
    """The qualified names of those devices."""
    return frozenset(name for name, ranks in _holders(specs).items() if any(_pairs(ranks.values())))


def _holders(specs: Iterable[Spec]) -> Mapping[str, Mapping[int, Mapping[str, int]]]:
    """By qualified name and rank: the paths of specs that have the device, each with its place there."""
    holders: dict[str, dict[int, dict[str, int]]] = {}
    for path, rank, document in specs:
        devices = document.get("devices")
        for number, device in enumerate(devices if isinstance(devices, list) else ()):
            if isinstance(device, dict):
                name = f"{document.get('kind')}={device.get('name')}"
                holders.setdefault(name, {}).setdefault(rank, {})[path] = number
    return holders


def _pairs(ranks: Iterable[Mapping[str, int]]) -> Iterator[tuple[str, int, str]]:
    """(path, the device's place in it, another path of the same rank that has it, too)."""
    for paths in ranks:
        first, *others = paths
        if others:
            yield first, paths[first], others[0]
            yield from ((path, paths[path], first) for path in others)
