"""Under which names the controller's writes stand in the cluster, once a policy has been applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from support.fleet import Fleet, running_fleet
from tonnage.wire.kinds import CLUSTER_POLICY

ROOT: Final = Path(__file__).parents[3]
OURS: Final = "tonnage"
"""The field manager of every program of Tonnage."""
WRITTEN: Final = (
    *("nodes", "daemonsets", "services", "configmaps", "runtimeclasses", "clusterpolicies"),
    *("nodegpustatuses", "pods", "leases", "events"),
)
"""Kinds of which the controller has written something; agents write some of them, too."""
OTHERS: Final = frozenset(
    {
        *("kube-apiserver", "kubelet", "kube-controller-manager", "kube-scheduler"),
        "before-first-apply",  # what an agent had written of a NodeGPUStatus before the controller applied
        *("kubectl-client-side-apply", "kubectl-create", "tonnage-up"),
    }
)
"""Who else writes here: parts of Kubernetes, the user, and what makes the twin's cluster."""
APPLIED: Final = frozenset({"DaemonSet", "RuntimeClass", "NodeGPUStatus"})
"""Kinds of which the controller applies objects, or fields of its own; its pods come and go."""


async def _is_ready(fleet: Fleet) -> bool:
    policies = (await fleet.api.list(CLUSTER_POLICY)).items
    return bool(policies) and policies[0].status.get("state") == "ready"


async def _entries(fleet: Fleet) -> list[tuple[Any, Any]]:
    """Each object that somebody has written, with each entry of its managed fields."""
    asked = ("get", ",".join(WRITTEN), "-A", "--show-managed-fields", "-o", "json")
    objects = json.loads(await fleet.kubectl(*asked))["items"]
    return [(written, entry) for written in objects for entry in written["metadata"].get("managedFields", [])]


async def test_all_that_the_controller_writes_has_one_field_manager_and_its_objects_an_owner() -> None:
    """Objects of its own are applied whole; of others' it patches labels and status, by the same name."""
    scenario = (ROOT / "src/tonnage/scenarios/operator.yaml").read_text(encoding="utf-8")
    async with running_fleet(scenario) as fleet:
        await fleet.kubectl("apply", "-f", str(ROOT / "labs/operator-install/cluster-policy.yaml"))
        await fleet.until(lambda: _is_ready(fleet))
        entries = await _entries(fleet)
    assert {entry["manager"] for _, entry in entries} - OTHERS == {OURS}
    ours = [(written, entry["operation"]) for written, entry in entries if entry["manager"] == OURS]
    assert {written["kind"] for written, _ in ours} >= {*APPLIED, "Node", "ClusterPolicy", "Lease"}
    applied = [written for written, operation in ours if operation == "Apply"]
    assert {written["kind"] for written in applied} >= APPLIED
    [policy] = {written["metadata"]["uid"] for written, _ in ours if written["kind"] == "ClusterPolicy"}
    owned = [written for written in applied if written["kind"] in ("DaemonSet", "RuntimeClass")]
    assert {owner["uid"] for written in owned for owner in written["metadata"]["ownerReferences"]} == {policy}
