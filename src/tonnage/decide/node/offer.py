"""What a node offers, as it follows from its devices, its configuration, who holds what, and MPS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.choose_config import ConfigInForce
from tonnage.decide.node.device_holds import DeviceHolds, Uses
from tonnage.decide.node.mps.daemons import daemons_of, gated
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.mps import MpsState
from tonnage.model.devices.sharing import Advertisement, Hold, NodePlan
from tonnage.model.names import ResourceName


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What the node offers, and all that it follows from."""

    inventory: Inventory
    config: ConfigInForce
    plan: NodePlan
    holds: tuple[Hold, ...]
    advertised: tuple[Advertisement, ...]
    mps: Mapping[ResourceName, MpsState] = field(default_factory=dict)

    @property
    def contested(self) -> bool:
        """Whether a hold keeps a device from being offered: then its end is wanted soon."""
        pairs = zip(self.plan.resources, self.advertised, strict=True)
        return any(shown.slots is not resource.slots for resource, shown in pairs)

    def is_of(self, inventory: Inventory, config: ConfigInForce) -> bool:
        """Whether it was made of these very objects."""
        return self.inventory is inventory and self.config is config


def plan_of(
    inventory: Inventory,
    config: ConfigInForce,
    mps: Mapping[ResourceName, MpsState],
    before: NodeOffer | None = None,
) -> NodePlan:
    """How the devices are offered; the plan of `before`, where that was made of these very objects."""
    if before is not None and before.is_of(inventory, config) and before.mps is mps:
        return before.plan
    plan = share(inventory, config.config)
    return gated(plan, daemons_of(plan, inventory, config.config), mps)


def offer_of(
    inventory: Inventory,
    config: ConfigInForce,
    plan: NodePlan,
    held: DeviceHolds,
    mps: Mapping[ResourceName, MpsState],
    *,
    uses: Uses | None = None,
) -> NodeOffer:
    """The offer of a plan; `uses` are those of the holds, where they are known already."""
    return NodeOffer(inventory, config, plan, held.holds, advertise(plan, held.holds, uses), mps)
