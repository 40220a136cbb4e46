"""killContainer: how containers end: their hooks, their grace, and in which order those of a pod go.

Source: Kubernetes 1.35, pkg/kubelet/kuberuntime (killContainer) and pkg/kubelet/lifecycle.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tonnage.twin.kubelet.containers.container_records import ContainerSlot
from tonnage.twin.kubelet.containers.probe_actions import CheckError, command_failure, network_failure
from tonnage.twin.kubelet.containers.runtime_port import RunningContainer
from tonnage.twin.kubelet.live_pod import LivePod

_SHORTEST_GRACE_S: Final = 2.0


async def stop_container(live: LivePod, slot: ContainerSlot, grace_s: float, message: str = "") -> None:
    """Run its hook, then end it; both within the grace. Returns when it has ended."""
    current = slot.current
    if current is None or not current.running:
        return
    live.tell("Normal", "Killing", message or f"Stopping container {slot.container.name}", slot)
    hook = (slot.container.lifecycle or {}).get("preStop")
    if hook and grace_s > 0:
        grace_s -= await _pre_stop(live, slot, current, hook, grace_s)
    await live.node.runtime.stop(current, max(grace_s, _SHORTEST_GRACE_S) if hook else grace_s)


async def stop_all(live: LivePod, grace_s: float) -> None:
    """Stop what runs: containers first, then sidecars in reverse order."""
    sidecars = [slot for slot in live.progress.init if slot.sidecar]
    others = [slot for slot in live.progress.slots() if not slot.sidecar]
    await asyncio.gather(*(stop_container(live, slot, grace_s) for slot in others))
    for slot in reversed(sidecars):
        await stop_container(live, slot, grace_s)


async def _pre_stop(
    live: LivePod, slot: ContainerSlot, container: RunningContainer, hook: dict[str, Any], grace_s: float
) -> float:
    """Whole seconds that the hook took of the grace."""
    clock = live.node.clock
    before = clock.monotonic()
    run = asyncio.create_task(hook_succeeds(live, container, hook))
    late = asyncio.ensure_future(clock.sleep(grace_s))
    try:
        await asyncio.wait({run, late}, return_when=asyncio.FIRST_COMPLETED)
        if run.done() and not run.result():
            live.tell("Warning", "FailedPreStopHook", "PreStopHook failed", slot)
    finally:
        run.cancel()
        late.cancel()
    return float(int(clock.monotonic() - before))


async def hook_succeeds(live: LivePod, container: RunningContainer, hook: dict[str, Any]) -> bool:
    """Run a lifecycle hook in the container."""
    match hook:
        case {"sleep": {"seconds": seconds}}:
            await live.node.clock.sleep(float(seconds))
            return True
        case {"exec": {"command": list(words)}}:
            argv = [str(word) for word in words]
            try:
                return await command_failure(live, container, argv) is None
            except CheckError:
                return False
    try:
        return network_failure(live, container, hook) is None
    except CheckError:
        return False
