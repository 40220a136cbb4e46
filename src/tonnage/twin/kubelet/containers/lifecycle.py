"""One container of a pod from its first start to its last end.

Source: Kubernetes 1.35, pkg/kubelet/kuberuntime/kuberuntime_manager.go (computePodActions, doBackOff).
"""

from __future__ import annotations

from tonnage.twin.kubelet.containers.backoff import go_duration
from tonnage.twin.kubelet.containers.container_records import ContainerSlot
from tonnage.twin.kubelet.containers.probes import probing
from tonnage.twin.kubelet.containers.restarts import wanted_again
from tonnage.twin.kubelet.containers.runtime_port import RunningContainer
from tonnage.twin.kubelet.containers.termination import hook_succeeds, stop_container
from tonnage.twin.kubelet.live_pod import LivePod


async def keep(live: LivePod, slot: ContainerSlot) -> None:
    """Start the container, again and again as its policy says, until it has ended for good."""
    while not slot.over:
        if slot.current is None:
            await _start(live, slot)
        current = slot.current
        if current is None:
            continue
        current.ports.on_change = live.publish
        live.publish()
        async with probing(live, slot, current):
            await current.exited.wait()
        killed, slot.again = slot.again, None
        live.publish()
        if not (wanted_again(live.pod, slot, current.exit_code or 0) if killed is None else killed):
            return
        # What the kubelet kills it starts in the same step, and looks at how the one before that ended.
        await _back_off(live, slot, current, slot.last if killed else current)


async def _start(live: LivePod, slot: ContainerSlot) -> None:
    slot.probed = {}
    container = await live.node.starter.start(live.pod, slot, live.progress.pod_ip, live.publish)
    slot.current = container
    hook = (slot.container.lifecycle or {}).get("postStart")
    if hook and not await hook_succeeds(live, container, hook):
        live.tell("Warning", "FailedPostStartHook", "PostStartHook failed", slot)
        await stop_container(live, slot, live.grace_s(), "FailedPostStartHook")


async def _back_off(
    live: LivePod, slot: ContainerSlot, ended: RunningContainer, judged: RunningContainer | None
) -> None:
    """Wait as long as the kubelet would after `judged` ended."""
    clock = live.node.clock
    backoff = live.node.starter.backoff(live.pod.metadata.uid, slot.container.name)
    slot.last, slot.current = ended, None
    if judged is not None:
        ago_s = (clock.now() - (judged.finished_at or clock.now())).total_seconds()
        now = clock.monotonic()
        wait_s = backoff.remaining(now - ago_s, now)
        if wait_s > 0:
            name, delay = slot.container.name, go_duration(backoff.delay_s)
            slot.waiting = (
                "CrashLoopBackOff",
                f"back-off {delay} restarting failed container={name} pod={live.name}",
            )
            text = f"Back-off restarting failed container {name} in pod {live.name}"
            live.tell("Warning", "BackOff", text, slot)
            live.publish()
            await clock.sleep(wait_s)
        backoff.raise_at(clock.monotonic())
    slot.restarts = ended.config.attempt + 1
