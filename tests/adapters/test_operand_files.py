"""The log of each part, and status files: whose lines are in it, how long it grows, what is taken away."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
from pathlib import Path

from tonnage.adapters.operand_files import NodeStatusFiles, logged_by_part
from tonnage.decide.cluster.operate.operand_sets import operand_sets
from tonnage.model.json_access import mappings, texts
from tonnage.model.operands import OPERANDS, OperandImage
from tonnage.reading.gpu_policy import gpu_policy_from
from tonnage.wire.nvidia import ClusterPolicy
from tonnage.wire.objects import ObjectMeta

PLUGIN = logging.getLogger("tonnage.agent.plugin.device_plugin")


def log_of(root: Path, part: str) -> str:
    file = root / "run/tonnage/operands" / part / "log"
    return file.read_text() if file.exists() else ""


async def agent(root: Path, *lines: str) -> None:
    with logged_by_part(root):
        for line in lines:
            PLUGIN.info("%s", line)
            await asyncio.sleep(0)


async def test_each_agent_of_a_process_writes_its_own_log(tmp_path: Path) -> None:
    logging.getLogger("tonnage").setLevel(logging.INFO)
    await asyncio.gather(agent(tmp_path / "a", "one", "two\nlines"), agent(tmp_path / "b", "three"))
    PLUGIN.info("after both")
    lines = log_of(tmp_path / "a", "device-plugin").splitlines()
    assert [line.split(" INFO ")[1] for line in lines] == ["one", "two; lines"]
    assert log_of(tmp_path / "b", "device-plugin").endswith(" INFO three\n")


def test_lines_of_other_modules_are_in_no_part_s_log(tmp_path: Path) -> None:
    logging.getLogger("tonnage").setLevel(logging.INFO)
    with logged_by_part(tmp_path):
        logging.getLogger("tonnage.loop.informer").info("listed")
        logging.getLogger("tonnage.agent.mig.manager").info("divided")
    assert [file.parent.name for file in tmp_path.rglob("log")] == ["mig-manager"]


async def test_a_log_that_has_grown_long_begins_anew(tmp_path: Path) -> None:
    logging.getLogger("tonnage").setLevel(logging.INFO)
    await agent(tmp_path, *["x" * 10_000] * 40)
    assert len(log_of(tmp_path, "device-plugin")) < 300_000


async def test_status_files_come_and_go(tmp_path: Path) -> None:
    files = NodeStatusFiles(tmp_path)
    await files.show(
        {"/run/nvidia/validations/driver-ready": "A=b\n"}, ("/run/nvidia/validations/cuda-ready",)
    )
    ready = tmp_path / "run/nvidia/validations/driver-ready"
    assert ready.read_text() == "A=b\n"
    assert ready.stat().st_mode & 0o777 == 0o644
    await files.show({}, ("/run/nvidia/validations/driver-ready",))
    assert not ready.exists()


def resident_bytes(program: subprocess.Popen[bytes]) -> int:
    status = Path(f"/proc/{program.pid}/status").read_text()
    resident = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert resident is not None
    return int(resident[1]) * 1024


def test_the_pods_of_a_node_take_less_than_20_mb_together(tmp_path: Path) -> None:
    """What their programs hold, each with a log as long as it may get."""
    metadata = ObjectMeta(name="p", uid="u")
    policy = gpu_policy_from(ClusterPolicy(metadata=metadata, spec={"nodeStatusExporter": {"enabled": True}}))
    made = operand_sets(policy, OperandImage("registry.example.com/tonnage:1"), "gpu-operator", ()).applied
    assert len(made) == len(OPERANDS)
    log = tmp_path / "log"
    log.write_text(f"{'x' * 299}\n" * 1000)
    running = []
    try:
        for applied in made:
            [container] = mappings(applied.body, "spec", "template", "spec", "containers")
            words = [*texts(container, "command"), *texts(container, "args")[:-1], str(log)]
            program = subprocess.Popen(words, stdout=subprocess.PIPE)
            running.append(program)
            assert program.stdout is not None
            assert len(program.stdout.read(300_000)) == 300_000
        assert sum(map(resident_bytes, running)) < 20_000_000
    finally:
        for program in running:
            program.kill()
            program.communicate(timeout=60)
