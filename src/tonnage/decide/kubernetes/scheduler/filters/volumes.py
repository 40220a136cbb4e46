"""NodeVolumeLimits, VolumeBinding, VolumeZone: nodes that cannot have, reach or make the pod's volumes.

Only refusals that are sure are given. That a node is not refused says that it takes the pod only where
`undecided_volumes` has no word on them.

Source: kube-scheduler 1.34 to 1.37 plugins nodevolumelimits, volumebinding, volumezone (Filter).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.matching import selector_matches, term_matches
from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.decide.kubernetes.volume_matching import matched, reaches
from tonnage.decide.kubernetes.volumes import BY_HAND
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.selectors import NodeSelectorTerm
from tonnage.model.kubernetes.volumes import StorageClass, Volume, VolumeClaim
from tonnage.model.reasons.pod.volumes import StorageShort, VolumeElsewhere, VolumeLimit, VolumeNotAvailable
from tonnage.model.reasons.reason import Reason

NAME: Final = "VolumeBinding"
LIMITS: Final = "NodeVolumeLimits"
ZONE: Final = "VolumeZone"
_TOO_MANY: Final = "node(s) exceed max volume count"
_ELSEWHERE: Final = "node(s) didn't match PersistentVolume's node affinity"
_ELSEWHERE_BEFORE_133: Final = "node(s) had volume node affinity conflict"
_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_SHORT: Final = "node(s) did not have enough free storage"
_NONE: Final = "node(s) didn't find available persistent volumes to bind"
_NO_ZONE: Final = "node(s) had no available volume zone"
_GA: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_ZONES: Final = (*_GA, *_GA.values())


def prepare(pod: Pod, view: ClusterView) -> Check | None:
    """Refuse nodes where a volume of the pod cannot be."""
    if not pod.volumes:
        return None
    claims = VolumeClaims(view)
    own = [claim for volume in pod.volumes if (claim := claims.of(pod, volume.claim)) is not None]
    ephemeral = {volume.claim for volume in pod.volumes if volume.ephemeral}
    lasting = [claim for claim in own if claim.name not in ephemeral]
    elsewhere = _ELSEWHERE if view.profile.minor >= 33 else _ELSEWHERE_BEFORE_133

    def check(node: NodeView) -> PluginRefusal | None:
        full = _too_many(pod, node, own, claims)
        if full is not None:
            return PluginRefusal(LIMITS, (_TOO_MANY,), unresolvable=False, reasons=(full,))
        away = tuple(_away(node, own, claims))
        missing = tuple(_missing(node, own, claims))
        bound, unbound = (type(part[0]) if part else None for part in (away, missing))
        candidates = (
            (elsewhere, bound is VolumeElsewhere),
            (_NONE, unbound is VolumeNotAvailable),
            (_SHORT, unbound is StorageShort),
            (_GONE, bound is VolumeNotAvailable),
        )
        texts = tuple(text for text, is_so in candidates if is_so)
        if texts:
            return PluginRefusal(NAME, texts, unresolvable=True, reasons=(*away, *missing))
        zone = next(_wrong_zone(node, lasting, claims), None)
        return PluginRefusal(ZONE, (_NO_ZONE,), unresolvable=True, reasons=(zone,)) if zone else None

    return check


class VolumeClaims:
    """The claims, volumes and classes of a cluster, by name."""

    def __init__(self, view: ClusterView) -> None:
        snapshot = view.snapshot
        self.limits = snapshot.volume_limits
        self._counting = {driver.name for driver in snapshot.storage_drivers if driver.counts_storage}
        self._left, self._knows_storage = snapshot.storage_left, snapshot.was_read("CSIStorageCapacity")
        self._attachments = snapshot.attachments
        self._knows_volumes = snapshot.was_read("PersistentVolume")
        self.volumes = {volume.name: volume for volume in snapshot.volumes}
        self.of_class: dict[str, list[Volume]] = {}
        for volume in snapshot.volumes:
            self.of_class.setdefault(volume.storage_class, []).append(volume)
        self._of_drivers = {volume.name for volume in snapshot.volumes if volume.driver}
        self.classes = {cls.name: cls for cls in snapshot.storage_classes}
        self._claims = {(claim.namespace, claim.name): claim for claim in snapshot.volume_claims}

    def of(self, pod: Pod, name: str) -> VolumeClaim | None:
        """A claim of the pod's namespace."""
        return self._claims.get((pod.namespace, name))

    def volume_of(self, claim: VolumeClaim) -> Volume | None:
        """What a claim is bound to, where it is known."""
        return self.volumes.get(claim.volume) if claim.bound else None

    def is_lost(self, claim: VolumeClaim) -> bool:
        """Whether the volume that a claim is bound to does not exist."""
        return claim.bound and claim.volume not in self.volumes and self._knows_volumes

    def class_of(self, claim: VolumeClaim) -> StorageClass | None:
        """The class by which a claim is still to be met, once its pod has a node."""
        cls = self.classes.get(claim.storage_class)
        return cls if cls is not None and cls.waits and not claim.volume else None

    def lacks_storage(self, claim: VolumeClaim, cls: StorageClass, node: NodeView) -> bool:
        """Whether the driver that would make a claim's volume has not enough left on a node, and says so."""
        if cls.provisioner not in self._counting or not self._knows_storage:
            return False
        return not any(
            left.storage_class == cls.name
            and left.size is not None
            and left.size >= claim.size
            and selector_matches(left.nodes, node.node.labels)
            for left in self._left
        )

    def attachments(self, node: str) -> set[tuple[str, str]]:
        """The driver and the name of each volume of a driver that is attached to a node, used or not."""
        attached = self._attachments.get(node, {}).items()
        return {(driver, name) for name, driver in attached if driver and name in self._of_drivers}

    def attached(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """The driver and the name of each volume that a driver must attach for a pod."""
        for volume in pod.volumes:
            claim = self.of(pod, volume.claim)
            if claim is None:
                continue
            there, cls = self.volumes.get(claim.volume), self.classes.get(claim.storage_class)
            if there is not None and there.driver:
                yield there.driver, there.name
            elif there is None and cls is not None and cls.provisioner not in BY_HAND:
                yield cls.provisioner, f"{claim.namespace}/{claim.name}"


def _too_many(pod: Pod, node: NodeView, own: list[VolumeClaim], claims: VolumeClaims) -> Reason | None:
    limits = claims.limits.get(node.name, {})
    if not limits or not own:
        return None
    used = {volume for other in node.pods for volume in claims.attached(other)}
    new = set(claims.attached(pod)) - used
    there = used | claims.attachments(node.name)
    for driver in sorted({driver for driver, _ in new}):
        has, adds = (sum(name == driver for name, _ in part) for part in (there, new))
        if driver in limits and has + adds > limits[driver]:
            message = (
                f"{driver} attaches {limits[driver]} volumes there at most: {has} are, and {adds} would come"
            )
            return VolumeLimit(
                subject=f"Node {node.name}",
                message=message,
                remedy="wait for pods with volumes there to end, use fewer volumes, or other nodes",
                source=NAME,
                lasting=adds > limits[driver],
                driver=driver,
                limit=limits[driver],
                attached=has,
            )
    return None


def _away(node: NodeView, own: list[VolumeClaim], claims: VolumeClaims) -> Iterator[Reason]:
    for claim in own:
        volume = claims.volume_of(claim)
        if claims.is_lost(claim):
            message = f"the volume {claim.volume} of the claim {claim.name} does not exist"
            yield VolumeNotAvailable(
                subject=f"Node {node.name}",
                message=message,
                remedy="delete the claim and create it again",
                source=NAME,
                claim=claim.name,
            )
        elif volume is not None and not reaches(volume.nodes, node.node):
            terms = " or ".join(_written(term) for term in volume.nodes or ())
            message = f"the volume {volume.name} of the claim {claim.name} can be reached from {terms} only"
            yield _elsewhere(node, message, claim, volume=volume.name)


def _missing(node: NodeView, own: list[VolumeClaim], claims: VolumeClaims) -> Iterator[Reason]:
    """Why claims that wait cannot be met, in the order in which the scheduler looks at them."""
    waiting = {claim: cls for claim in own if (cls := claims.class_of(claim)) is not None}
    met = matched((claim for claim in waiting if not claim.node), claims.of_class, node.node)
    for claim in sorted(waiting.keys() - met, key=lambda waiting_claim: _turn(waiting_claim, node, own)):
        cls = waiting[claim]
        kind: type[VolumeNotAvailable | StorageShort] = VolumeNotAvailable
        if claim.node not in ("", node.name):
            message = f"a volume of the claim {claim.name} is being made for {claim.node}"
            remedy = f"wait for it, or delete the claim's annotation if {claim.node} is no longer meant"
        elif cls.provisioner in BY_HAND:
            message = f"no volume of the class {cls.name} is free for the claim {claim.name} there"
            remedy = "make one by hand (a PersistentVolume of that class and size, reached from that node)"
        elif cls.topologies and not any(term_matches(term, node.node) for term in cls.topologies):
            terms = " or ".join(_written(term) for term in cls.topologies)
            message = f"the class {cls.name} of the claim {claim.name} makes volumes for {terms} only"
            remedy = "another storage class, or nodes where that one makes volumes"
        elif claims.lacks_storage(claim, cls, node):
            kind = StorageShort
            message = f"{cls.provisioner} has not enough storage left there for the claim {claim.name}"
            remedy = "a smaller claim, another storage class, or free storage there (see CSIStorageCapacity)"
        else:
            continue
        yield kind(
            subject=f"Node {node.name}",
            message=message,
            remedy=remedy,
            source=NAME,
            claim=claim.name,
            class_=cls.name,
        )


def _turn(claim: VolumeClaim, node: NodeView, own: list[VolumeClaim]) -> tuple[int, int, int]:
    """Claims promised to other nodes first, then those to this one, then the smaller ones."""
    if claim.node:
        return (0 if claim.node != node.name else 1), 0, own.index(claim)
    return 2, claim.size, own.index(claim)


def _wrong_zone(node: NodeView, own: list[VolumeClaim], claims: VolumeClaims) -> Iterator[Reason]:
    labels = node.node.labels
    if not any(key in labels for key in _ZONES):
        return
    for claim in own:
        volume = claims.volume_of(claim)
        for key in _ZONES:
            zone = volume.labels.get(key) if volume is not None else None
            has = labels.get(key, labels.get(_GA.get(key, ""), ""))
            zones = [part.strip() for part in (zone or "").split("__")]
            if all(zones) and has not in zones:
                message = f"the volume of the claim {claim.name} is in {zone}, the node in {has or 'no zone'}"
                yield _elsewhere(node, message, claim, key=key, zone=zone)


_MOVE: Final = (
    "GPU nodes where the volume is, or a new volume of a class with volumeBindingMode WaitForFirstConsumer, "
    "which is made where the pod goes"
)


def _written(term: NodeSelectorTerm) -> str:
    return ", ".join(map(str, (*term.expressions, *term.fields))) or "nowhere"


def _elsewhere(
    node: NodeView,
    message: str,
    claim: VolumeClaim,
    *,
    volume: str | None = None,
    key: str | None = None,
    zone: str | None = None,
) -> VolumeElsewhere:
    return VolumeElsewhere(
        subject=f"Node {node.name}",
        message=message,
        remedy=_MOVE,
        source=NAME,
        claim=claim.name,
        volume=volume,
        key=key,
        wanted=zone,
    )
