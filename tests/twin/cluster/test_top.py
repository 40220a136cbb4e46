"""`tonnage top` over a cluster: by the agents' pages with the right to them, by their reports without it."""

from __future__ import annotations

from pathlib import Path

from support.fleet import Fleet
from tonnage.adapters.kubernetes.client import connect
from tonnage.cli.top.sources import ClusterSource, Moment
from tonnage.diagnose.top.usage import fleet_usage

_READER = (("Impersonate-User", "reader"),)


async def _read(kubeconfig: Path, user: tuple[tuple[str, str], ...] = ()) -> Moment:
    async with connect(kubeconfig, impersonation=user) as api:
        source = ClusterSource(api, "tonnage-system", "default", 10)
        try:
            return await source.read()
        finally:
            await source.close()


async def test_top_reads_the_agents_pages(fleet: Fleet) -> None:
    await fleet.run_pod("train")
    await fleet.until_phase("train", "Running")

    async def shown() -> bool:
        moment = await _read(fleet.kubeconfig)
        pods = fleet_usage(moment.reports, moment.pages, moment.now).pods
        return [pod.pod for pod in pods] == ["default/train"] and moment.notes == ()

    await fleet.until(shown)


async def test_without_the_right_to_pages_top_shows_reports_and_names_the_right(fleet: Fleet) -> None:
    kinds = "--resource=nodes,pods,nodegpustatuses"
    await fleet.kubectl("create", "clusterrole", "r", "--verb=get,list", kinds)
    await fleet.kubectl("create", "clusterrolebinding", "r", "--clusterrole=r", "--user=reader")

    async def reported() -> bool:
        return bool(await fleet.gpu_status())

    await fleet.until(reported)

    async def told() -> bool:
        moment = await _read(fleet.kubeconfig, _READER)
        return any("tonnage access top" in note for note in moment.notes) and "t4-0" in moment.reports

    await fleet.until(told)
    moment = await _read(fleet.kubeconfig, _READER)
    usage = fleet_usage(moment.reports, moment.pages, moment.now)
    assert [device.age_s is not None for device in usage.devices] == [True, True]
