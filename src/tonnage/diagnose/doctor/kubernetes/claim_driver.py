"""Does the driver for ResourceClaims (DRA) serve, does kubelet know it, can all its devices be claimed?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tonnage.decide.node.claims.offer import WITHOUT_PARTITIONS
from tonnage.diagnose.doctor.finding import AGENT_PODS, NodeFinding, finding, listed
from tonnage.diagnose.doctor.kubernetes.kubelet import up
from tonnage.model.node.facts import KubeletFacts
from tonnage.model.node.gpu_status import ClaimReport
from tonnage.model.reasons.node.plugin import ClaimsNotServed, DevicesNotAllocatable
from tonnage.model.severity import Severity


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
                else f"kubectl logs {AGENT_PODS} --tail=50 | grep claims",
                driver=claims.driver,
                problem=claims.why,
            ),
            where="NodeGPUStatus status.claims",
            why="its devices are in no ResourceSlice, and kubelet prepares no claim of them",
        )
        return
    yield from _unregistered(claims.driver, kubelet)
    there = {*claims.names.values()}
    unfit = claims.unfit
    if len(unfit) < len(claims.devices):  # then some places of MIG devices may be taken, as they should be
        unfit = {name: why for name, why in unfit.items() if name in there or why == WITHOUT_PARTITIONS}
    if unfit:
        total = len(there | unfit.keys())
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
    """Where the agent believes that kubelet knows its driver, and no socket answers by which it would."""
    if kubelet is None or kubelet.drivers is None or not up(kubelet):
        return
    own = [socket for socket in kubelet.drivers if socket.name.rpartition("/")[2].startswith(driver)]
    if all(socket.answer in ("nobody", "silent") for socket in own):
        names = listed([socket.name for socket in own])
        problem = (
            f"nobody answers on {names}"
            if own
            else f"no socket of {driver} is there by which kubelet would know it"
        )
        waits = f"pods with claims wait: DRA driver {driver} is not registered"
        yield finding(
            ClaimsNotServed(
                message=f"claims are not served: {problem}",
                remedy=f"kubectl delete pod {AGENT_PODS} --field-selector spec.nodeName=$(hostname)"
                " (pods that run keep their devices)",
                driver=driver,
                problem=problem,
            ),
            where="/var/lib/kubelet/plugins_registry",
            why=waits if own else f"somebody removed it, and {waits}",
        )


def _by_why(unfit: Mapping[str, str]) -> Mapping[str, list[str]]:
    names_by_why: dict[str, list[str]] = {}
    for name, why in unfit.items():
        names_by_why.setdefault(why, []).append(name)
    return names_by_why
