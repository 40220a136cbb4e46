"""How fast an agent process registers its device plugin, and what it weighs, beside an empty gRPC process."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grpc
import grpc.aio

from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet.methods import REGISTER

TONNAGE = str(Path(sys.executable).with_name("tonnage"))
HARDWARE = "devices:\n" + "".join(f"- {{uuid: GPU-{i}, model: H100-80}}\n" for i in range(8))
IMPORTS = "import grpc.aio, google.protobuf.message, time; time.sleep(60)"


def measure(rounds: int) -> dict[str, list[float]]:
    """Start to Register in seconds; resident memory one second later."""
    register: list[float] = []
    resident: list[float] = []
    empty: list[float] = []
    for _ in range(rounds):
        took, weight = asyncio.run(_one_agent())
        register.append(took)
        resident.append(weight)
        empty.append(_empty_process())
    return {
        "agent process: start to Register, s": register,
        "a process that only imports grpc.aio: resident memory, MB": empty,
        "agent process with its plugin, 8 GPUs: resident memory, MB (wanted: under 75)": resident,
    }


async def _one_agent() -> tuple[float, float]:
    root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    plugins = root / "var/lib/kubelet/device-plugins"
    plugins.mkdir(parents=True)
    (root / "hardware.yaml").write_text(HARDWARE)
    registered = asyncio.Event()

    async def register(_request: plugin.RegisterRequest, _context: object) -> plugin.Empty:
        registered.set()
        return plugin.Empty()

    server = grpc.aio.server()
    _, service, method = REGISTER.path.split("/")
    handler = grpc.unary_unary_rpc_method_handler(
        register, REGISTER.request.FromString, REGISTER.response.SerializeToString
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: handler})])
    server.add_insecure_port(f"unix:{plugins}/kubelet.sock")
    await server.start()
    command = [TONNAGE, "node", "--node-name", "bench", "--root", str(root), "--standalone", "--devices"]
    started = time.perf_counter()
    agent = subprocess.Popen(  # noqa: ASYNC220 - returns at once
        [*command, f"scenario:{root}/hardware.yaml"], env=_without_cluster(), stderr=subprocess.DEVNULL
    )
    try:
        await asyncio.wait_for(registered.wait(), 30)
        took = time.perf_counter() - started
        await asyncio.sleep(1)
        return took, _resident_mb(agent.pid)
    finally:
        agent.terminate()
        agent.wait(30)
        await server.stop(0)
        shutil.rmtree(root)


def _empty_process() -> float:
    process = subprocess.Popen([sys.executable, "-c", IMPORTS])
    try:
        time.sleep(1)
        return _resident_mb(process.pid)
    finally:
        process.kill()
        process.wait()


def _without_cluster() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "TONNAGE"))}


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError("no VmRSS")
