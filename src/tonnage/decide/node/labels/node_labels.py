"""Every label that the agent publishes about its node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tonnage.decide.node.labels.gpu import gpu_labels
from tonnage.decide.node.labels.machine import gpus_on_the_bus, machine_labels
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.node.machine import Machine


@dataclass(frozen=True, slots=True)
class PublishedLabels:
    """Labels, and what they depend on beside devices, configuration and machine: see `node_labels`."""

    labels: Mapping[str, str]
    direct: bool
    started: datetime


def node_labels(
    inventory: Inventory,
    config: PluginConfig,
    machine: Machine,
    *,
    readable: bool,
    direct: bool,
    started: datetime,
) -> dict[str, str] | None:
    """The labels to have; None to leave them as they are.

    Where the devices are not `readable` the labels stay as long as the PCI bus has GPUs, or nobody knows.
    Where they are not `direct`, node feature discovery speaks of the machine itself. `started` is when the
    agent began.
    """
    if not readable:
        if machine.pci is None or gpus_on_the_bus(machine.pci):
            return None
        inventory = Inventory()
    plan = share(inventory, config)
    since = started if config.features.timestamp else None
    labels = gpu_labels(inventory, config, plan, machine, started=since)
    return machine_labels(machine) | labels if direct else labels
