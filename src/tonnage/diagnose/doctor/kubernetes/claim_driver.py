"""Does the driver for ResourceClaims (DRA) serve, does kubelet know it, and has it all devices to give?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.diagnose.doctor.finding import NodeFinding, finding, listed
from tonnage.diagnose.doctor.kubernetes.kubelet import up
from tonnage.model.node.facts import KubeletFacts
from tonnage.model.node.gpu_status import ClaimReport
from tonnage.model.reasons.node.plugin import ClaimsNotServed, DevicesNotAllocatable
from tonnage.model.severity import Severity

_AGENT: Final = "-n tonnage-system -l app.kubernetes.io/name=tonnage-agent"


def claim_findings(claims: ClaimReport | None, kubelet: KubeletFacts | None) -> Iterator[NodeFinding]:
    """DRA: pods with claims wait for a driver that does not serve, or for devices that it cannot give."""
    if claims is None:
        return
    if claims.why:
        yield finding(
            ClaimsNotServed(
                message=f"claims are not served: {claims.why}",
                remedy="remove the other driver from this node, or the section claims of its configuration"
                if "another driver" in claims.why
                else f"kubectl logs {_AGENT} --tail=50 | grep claims",
                driver=claims.driver,
                problem=claims.why,
            ),
            where="NodeGPUStatus status.claims",
            why="its devices are in no ResourceSlice, and kubelet prepares no claim of them",
        )
        return
    yield from _unregistered(claims.driver, kubelet)
    some = {name: why for name, why in claims.unfit.items() if name in claims.names.values()}
    unfit = some if len(claims.unfit) < len(claims.devices) else claims.unfit
    if unfit:
        total = len(claims.names) if unfit is some else len(claims.devices)
        yield finding(
            DevicesNotAllocatable(
                message=f"{claims.driver}: {total} are there, {total - len(unfit)} can be claimed",
                remedy="do what each reason asks for: tonnage explain node $(hostname)",
                resource=claims.driver,
                capacity=total,
                allocatable=total - len(unfit),
            ),
            where="NodeGPUStatus status.claims.devices",
            why="; ".join(f"{listed(names)}: {why}" for why, names in _by_why(unfit).items())[:500],
            severity=Severity.WARNING,
        )


def _unregistered(driver: str, kubelet: KubeletFacts | None) -> Iterator[NodeFinding]:
    """Where the agent believes that kubelet knows its driver, and the socket by which it would is gone."""
    if kubelet is None or kubelet.drivers is None or not up(kubelet):
        return
    own = [socket for socket in kubelet.drivers if socket.name.rpartition("/")[2].startswith(driver)]
    if not any(socket.answer == "listens" for socket in own):
        problem = f"no socket of {driver} is there by which kubelet would know it"
        yield finding(
            ClaimsNotServed(
                message=f"claims are not served: {problem}",
                remedy=f"kubectl delete pod {_AGENT} --field-selector spec.nodeName=$(hostname)"
                " (pods that run keep their devices)",
                driver=driver,
                problem=problem,
            ),
            where="/var/lib/kubelet/plugins_registry",
            why=f"somebody removed it, and pods with claims wait: DRA driver {driver} is not registered",
        )


def _by_why(unfit: Mapping[str, str]) -> Mapping[str, list[str]]:
    names_by_why: dict[str, list[str]] = {}
    for name, why in unfit.items():
        names_by_why.setdefault(why, []).append(name)
    return names_by_why
