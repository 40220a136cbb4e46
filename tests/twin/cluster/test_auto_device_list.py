"""`deviceListStrategy: auto` on the whole twin: what a container gets follows the node's runtime."""

from __future__ import annotations

from support.fleet import Fleet
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import CONFIG_MAP, NODE, NODE_GPU_STATUS

AUTO = "version: v1\nflags: {plugin: {deviceListStrategy: auto}}\n"
OFF = 'version = 3\n[plugins."io.containerd.cri.v1.runtime"]\nenable_cdi = false\n'


async def test_a_container_gets_its_gpu_by_cdi_where_the_runtime_has_it_else_by_a_variable(
    fleet: Fleet,
) -> None:
    async def visible(pod: str) -> str:
        await fleet.run_pod(pod)
        await fleet.until_phase(pod, "Running")
        return (await fleet.kubectl("exec", pod, "--", "printenv", "NVIDIA_VISIBLE_DEVICES")).strip()

    async def says(text: str) -> None:
        async def said() -> bool:
            conditions = (await fleet.api.get(NODE, "t4-0")).status.conditions
            reports = (await fleet.api.list(NODE_GPU_STATUS)).items
            published = [str(one.status.get("config", {}).get("deviceList")) for one in reports]
            heard = [one.message for one in conditions if one.type == "GPUConfigApplied"]
            return bool(published) and all(text in one for one in (*heard, *published))

        await fleet.until(said)

    patch: JsonObject = {"data": {"default": AUTO}}
    await fleet.api.patch(CONFIG_MAP, "device-plugin-config", patch, namespace="tonnage-system")
    await says("cdi-cri: kubelet 1.35")
    assert await visible("by-cdi") == "void"
    assert len(await fleet.uuids_in("by-cdi")) == 1

    config = fleet.gpu_node.root / "etc/containerd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(OFF)
    await says("envvar: containerd 2.2.1 has CDI switched off: /etc/containerd/config.toml:3")
    given = await visible("by-variable")
    assert given.startswith("GPU-")
    assert {given}.isdisjoint(await fleet.uuids_in("by-cdi"))
