"""What tests add to the pod of an installed agent: programs and files of a machine that has GPUs."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.driver_root import make_pci_device, pci_address
from support.genuine_cluster import GenuineCluster
from support.helm import CHART
from support.installed_agent import TWO_GPUS, InstalledAgent, installed_agent
from support.node_root import BOOT_ID
from support.nvml import nvidia_smi
from support.nvml.state import DriverState
from tonnage.twin import mps_control

CHANGES: Final = "/var/lib/tonnage/nvml"
"""On the node: what the pretended driver changes, whose own folder the agent can only read."""
_SLICES: Final = "/var/lib/tonnage/slices"
_ADDED: Final = "/opt/added"
_PYTHON: Final = "/usr/bin/python3"
_SCRIPT: Final = f"""\
#!{_PYTHON} -IS
import runpy, sys
program = sys.argv[0].rpartition("/")[0] + "/mps_control.py"
sys.argv = [program, program + ".fault", *sys.argv[1:]]
runpy.run_path(program, run_name="__main__")
"""
_SMI: Final = """\
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static const char *const rows[][2] = {ROWS};
int main(int count, char **words)
{
    char script[4096];
    if (count == 2 && !strcmp(words[1], "-L")) {
        for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
            if (!access(rows[i][0], F_OK)) printf("GPU %u: %s\\n", i, rows[i][1]);
        return 0;
    }
    snprintf(script, sizeof script, "%s.py", words[0]);
    words[0] = script;
    execv(script, words);
    return 127;
}
"""
"""nvidia-smi: `-L` lists GPUs by the device nodes that are there, the rest is the pretended program's."""
_OWN_KERNEL: Final = """\
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
places = {b"/node/boot_id": b"/proc/sys/kernel/random/boot_id", b"/driver-root/proc/driver": b"/proc/driver"}
for own, place in places.items():
    if libc.mount(own, place, None, 4096, None):
        raise SystemExit(f"{place}: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Runtimes mount nothing below /proc, so the container does it itself."""


@contextmanager
def agent_with_programs(
    cluster: GenuineCluster,
    version: str,
    *,
    state: DriverState = TWO_GPUS,
    values: Mapping[str, object],
    roots: Mapping[int, str] | None = None,
) -> Iterator[InstalledAgent]:
    """The agent, with the driver's programs in its pod; what it changes by them is kept on the node.

    `roots`: it also sees these PCIe roots of GPUs by slot, and of the kernel the node's boot id and what the
    driver says in /proc; its container must have CAP_SYS_ADMIN then.
    """
    added = cluster.node.root.at(_ADDED)
    volumes = {"programs": (f"{_ADDED}/bin", "/usr/local/nvidia/bin")}
    command: tuple[str, ...] = ("tonnage", "node")
    _make_programs(added / "bin")
    if roots is not None:
        _make_pci(added / "pci", state, roots)
        volumes["pci"] = (f"{_ADDED}/pci", "/sys/bus/pci/devices")
        volumes["boot"] = (BOOT_ID, "/node/boot_id")
        command = (_PYTHON, "-c", _OWN_KERNEL, *command)
    try:
        with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
            chart = _chart(Path(folder, "chart"), volumes, command)
            with installed_agent(cluster, version, state=state, values=values, chart=chart) as agent:
                _install_smi(agent)
                agent.driver.file.with_name(f"{agent.driver.file.name}.mig").symlink_to(f"{CHANGES}.mig")
                agent.driver.file.with_name("slices").symlink_to(_SLICES)
                yield agent
    finally:
        shutil.rmtree(added)


def _chart(folder: Path, volumes: Mapping[str, tuple[str, str]], command: Sequence[str]) -> Path:
    """The chart with more volumes, and another command, in the agent's pod."""
    shutil.copytree(CHART, folder)
    file = folder / "templates/daemonset.yaml"
    mounts = "".join(
        f"            - {{name: {name}, mountPath: {inside}, readOnly: true}}\n"
        for name, (_, inside) in volumes.items()
    )
    paths = "".join(
        f"        - {{name: {name}, hostPath: {{path: {path}}}}}\n" for name, (path, _) in volumes.items()
    )
    text = file.read_text()
    for place, added in (
        ("          command: [tonnage, node]\n", f"          command: {json.dumps(command)}\n"),
        (
            "            - {name: device-plugins, mountPath",
            f"{mounts}            - {{name: device-plugins, mountPath",
        ),
        ("        - name: device-plugins\n", f"{paths}        - name: device-plugins\n"),
    ):
        assert text.count(place) == 1, place
        text = text.replace(place, added)
    file.write_text(text)
    return folder


def replaced(agent: InstalledAgent, before: str) -> bool:
    """Whether another pod of the agent is there than the one of that uid, and ready."""
    try:
        pod = agent.pod()
    except ValueError:
        return False
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return pod["metadata"]["uid"] != before and conditions.get("Ready") == "True"


def time_slices(agent: InstalledAgent) -> dict[str, int]:
    """What was set of each GPU, by uuid."""
    return nvidia_smi.time_slices(agent.cluster.node.root.at(CHANGES))


def _make_programs(folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copy(mps_control.__file__, folder / "mps_control.py")
    program = folder / mps_control.NAME
    program.write_text(_SCRIPT)
    program.chmod(0o755)


def _install_smi(agent: InstalledAgent) -> None:
    """For the agent, whose image has Python and no shell, and for pods, which have neither's libraries."""
    program = nvidia_smi.install(agent.driver.root, python=_PYTHON)
    program.rename(program.with_suffix(".py"))
    gpus = ((gpu.minor_number, gpu.catalogue.product, gpu.identity) for gpu in agent.driver.state.gpus)
    rows = "".join(f'{{"/dev/nvidia{minor}", "{product} (UUID: {uuid})"}},' for minor, product, uuid in gpus)
    compiler = ["gcc", "-static", "-x", "c", "-", "-o", str(program), f"-DROWS={rows}"]
    subprocess.run(compiler, input=_SMI, text=True, check=True, timeout=300)


def _make_pci(folder: Path, state: DriverState, roots: Mapping[int, str]) -> None:
    """As sysfs has it, as far as the agent looks: links into a tree below root complexes."""
    for gpu in state.gpus:
        address = pci_address(gpu)
        make_pci_device(folder / "tree" / roots[gpu.slot] / address, gpu)
        (folder / address).symlink_to(f"tree/{roots[gpu.slot]}/{address}")
