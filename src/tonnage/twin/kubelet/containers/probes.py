"""prober.worker: startup, liveness and readiness probes of a running container.

Source: Kubernetes 1.35, pkg/kubelet/prober.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tonnage.twin.kubelet.containers.container_records import ContainerSlot
from tonnage.twin.kubelet.containers.probe_actions import CheckError, command_failure, network_failure
from tonnage.twin.kubelet.containers.restarts import starts_again_when_killed
from tonnage.twin.kubelet.containers.runtime_port import RunningContainer
from tonnage.twin.kubelet.containers.termination import stop_container
from tonnage.twin.kubelet.live_pod import LivePod

_DELAY_S: Final = 0
_PERIOD_S: Final = 10
_TIMEOUT_S: Final = 1


@dataclass(slots=True)
class Tally:
    """How often in a row a probe has said the same."""

    success_threshold: int
    failure_threshold: int
    _last: bool | None = None
    _run: int = 0

    def verdict(self, succeeded: bool) -> bool | None:
        """What the probe says by now; None while too few results agree."""
        self._run = self._run + 1 if succeeded == self._last else 1
        self._last = succeeded
        threshold = self.success_threshold if succeeded else self.failure_threshold
        return succeeded if self._run >= threshold else None


def _probes(slot: ContainerSlot) -> dict[str, dict[str, Any]]:
    container = slot.container
    probes = {
        "Startup": container.startup_probe,
        "Liveness": container.liveness_probe,
        "Readiness": container.readiness_probe,
    }
    return {kind: probe for kind, probe in probes.items() if probe is not None}


@asynccontextmanager
async def probing(live: LivePod, slot: ContainerSlot, container: RunningContainer) -> AsyncIterator[None]:
    """Probe the container within this block."""
    probes = _probes(slot) if slot.sidecar or slot.part == "containers" else {}
    tasks = [
        asyncio.create_task(_probe(live, slot, container, kind, probe), name=f"{kind} probe of {slot.path}")
        for kind, probe in probes.items()
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _probe(
    live: LivePod, slot: ContainerSlot, container: RunningContainer, kind: str, probe: dict[str, Any]
) -> None:
    clock = live.node.clock
    tally = Tally(int(probe.get("successThreshold") or 1), int(probe.get("failureThreshold") or 3))
    if kind == "Startup" and slot.probed.get(kind):
        return
    if kind != "Startup":
        await live.until_started(slot)
    ran_s = (clock.now() - container.started_at).total_seconds()
    await clock.sleep(max(0.0, float(probe.get("initialDelaySeconds") or _DELAY_S) - ran_s))
    while True:
        succeeded = await _check(live, slot, container, kind, probe)
        verdict = None if succeeded is None else tally.verdict(succeeded)
        if verdict is not None and slot.probed.get(kind) != verdict:
            slot.probed[kind] = verdict
            live.publish()
        if verdict is False and kind != "Readiness":
            await _kill(live, slot, kind, probe)
            return
        if verdict and kind == "Startup":
            return
        await clock.sleep(float(probe.get("periodSeconds") or _PERIOD_S))


async def _check(
    live: LivePod, slot: ContainerSlot, container: RunningContainer, kind: str, probe: dict[str, Any]
) -> bool | None:
    """Whether the container passes; None when it could not be asked."""
    try:
        if "exec" in probe:
            argv = [str(word) for word in probe["exec"].get("command") or ()]
            limit_s = float(probe.get("timeoutSeconds") or _TIMEOUT_S)
            failure = await command_failure(live, container, argv, limit_s)
        else:
            failure = network_failure(live, container, probe)
    except CheckError as error:
        text = f"{kind} probe errored and resulted in unknown state: {error}"
        live.tell("Warning", "Unhealthy", text, slot)
        return None
    if failure is not None and container.running:
        live.tell("Warning", "Unhealthy", f"{kind} probe failed: {failure}", slot)
    return failure is None


async def _kill(live: LivePod, slot: ContainerSlot, kind: str, probe: dict[str, Any]) -> None:
    """End a container that does not live, or did not start; it is started again if its policy allows."""
    init = "Init container" if slot.sidecar else "Container"
    slot.again = slot.sidecar or starts_again_when_killed(live.pod, slot.container)
    message = f"{init} {slot.container.name} failed {kind.lower()} probe"
    if slot.again and not slot.sidecar:
        message += ", will be restarted"
    own = probe.get("terminationGracePeriodSeconds")
    grace_s = live.grace_s() if own is None else float(own)
    await stop_container(live, slot, grace_s, message)
