"""Doctor beside things that answer, or do not: the driver, the agent, an API server."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.deadlines import join
from support.driver_root import Driver
from support.nvml.state import Rule, h100_node
from support.sick_node import PATIENCE_S, PLUGINS, SickNode
from tonnage.adapters.node_facts.gather import Looking, NodeLook
from tonnage.diagnose.doctor.examine import examine
from tonnage.diagnose.doctor.finding import DoctorReport, NodeFinding
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import ClusterFacts
from tonnage.model.reasons.gpu.devices import GpuConfigRefused
from tonnage.model.reasons.messages.node_symptoms import DeviceUnregistered
from tonnage.model.reasons.node.driver import DriverHangs, GpuNotDriven
from tonnage.model.reasons.node.plugin import AgentNotReady
from tonnage.model.severity import Severity

HEALTHY = """\
tonnage_agent_devices{resource="nvidia.com/gpu",state="advertised"} 4.0
tonnage_agent_devices{resource="nvidia.com/gpu",state="unhealthy"} 0.0
tonnage_agent_last_registration_timestamp_seconds{resource="nvidia.com/gpu"} 1.1e+09
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path / "driver", h100_node(4))
    for folder in (made.root / "sys/bus/pci/devices").iterdir():
        (folder / "driver").symlink_to("../../../bus/pci/drivers/nvidia")
    yield made
    made.rule()


@pytest.fixture
def node() -> Iterator[SickNode]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    with ExitStack() as ends:
        yield SickNode(folder, ends)
    shutil.rmtree(folder)


async def asked(root: Path, *, deadline_s: float = 20.0, said: list[str] | None = None) -> DoctorReport:
    async def nobody() -> ClusterFacts | None:
        return None

    looking = Looking(root, "node", deadline_s=PATIENCE_S, driver_deadline_s=deadline_s)
    facts = await NodeLook(looking, nobody, (said if said is not None else []).append).facts()
    return examine(facts, [NodeLayer.HARDWARE, NodeLayer.DRIVER])


async def test_a_driver_that_answers_is_healthy_and_was_asked_apart(driver: Driver) -> None:
    said: list[str] = []
    report = await asked(driver.root, said=said)
    assert (report.findings, said) == ((), ["asking the driver"])
    assert report.layers[0].summary == "4 NVIDIA GPUs"


async def test_kub_2_a_gpu_that_the_driver_lost_is_counted_against_the_bus(driver: Driver) -> None:
    driver.lose(3)
    (finding,) = (await asked(driver.root)).findings
    assert isinstance(finding.reason, GpuNotDriven)
    assert finding.reason.message == "4 GPUs are on the bus, the driver shows 3"
    assert finding.why.startswith("device 3: GPU is lost")


@pytest.mark.parametrize("slot", [1, None])
async def test_a_driver_that_hangs_is_a_finding_and_hangs_nobody(driver: Driver, slot: int | None) -> None:
    driver.rule(Rule("hang", slot=slot))
    findings = (await asked(driver.root, deadline_s=1.0)).findings
    hanging = next(finding for finding in findings if isinstance(finding.reason, DriverHangs))
    assert hanging.reason.message == ("the driver hangs" if slot is None else "the driver hangs on 1 GPU")
    assert "dmesg" in hanging.reason.remedy


@contextmanager
def agent(pages: Mapping[str, tuple[int, str]]) -> Iterator[str]:
    """Something that answers as the agent does; yields its address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = pages.get(self.path, (404, ""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            join(thread)


async def plugin_findings(node: SickNode, pages: Mapping[str, tuple[int, str]]) -> tuple[NodeFinding, ...]:
    with agent(pages) as address:
        words = ["python3", "/usr/bin/tonnage", "node", f"--metrics-address={address}"]
        mounts = (node.root / "proc/42/mountinfo").read_text()
        node.process(42, words, mountinfo=mounts)
        return examine(await node.facts(), [NodeLayer.PLUGIN]).findings


async def test_an_agent_that_is_ready_has_no_finding(node: SickNode) -> None:
    assert await plugin_findings(node, {"/readyz": (200, "ok\n"), "/metrics": (200, HEALTHY)}) == ()


async def test_an_agent_that_is_not_ready_says_why_in_its_own_words(node: SickNode) -> None:
    wrong = (
        "devices: NVML: Driver Not Loaded\nholders: kubelet has not been asked yet which pods hold devices\n"
    )
    (finding,) = await plugin_findings(node, {"/readyz": (503, wrong), "/metrics": (200, HEALTHY)})
    assert isinstance(finding.reason, AgentNotReady)
    assert finding.reason.message == "the agent is not ready: devices: NVML: Driver Not Loaded"
    assert finding.why == "holders: kubelet has not been asked yet which pods hold devices"


async def test_an_agent_whose_address_nobody_answers_at_is_a_warning(node: SickNode) -> None:
    node.process(42, ["tonnage", "node", "--metrics-address", "127.0.0.1:1"])
    (finding,) = examine(await node.facts(), [NodeLayer.PLUGIN]).findings
    assert finding.reason.message == "the agent runs but does not answer"


async def test_kub_2_an_unhealthy_device_of_the_agents_list(node: SickNode) -> None:
    text = HEALTHY.replace('state="unhealthy"} 0.0', 'state="unhealthy"} 1.0')
    (finding,) = await plugin_findings(node, {"/readyz": (200, "ok"), "/metrics": (200, text)})
    assert finding.reason.message == "nvidia.com/gpu: 4 are there, 3 allocatable"


async def test_kub_4_refusals_are_counted_in_a_note(node: SickNode) -> None:
    text = (
        HEALTHY + 'tonnage_agent_allocations_total{resource="nvidia.com/gpu.shared",result="refused"} 2.0\n'
    )
    (finding,) = await plugin_findings(node, {"/readyz": (200, "ok"), "/metrics": (200, text)})
    assert finding.severity is Severity.NOTE
    assert finding.reason.message == "nvidia.com/gpu.shared: 2 requests refused since the agent started"


async def test_a_refused_configuration_is_told_without_an_api_server(node: SickNode) -> None:
    text = HEALTHY + "tonnage_agent_config_refused 1.0\n"
    (finding,) = await plugin_findings(node, {"/readyz": (200, "ok"), "/metrics": (200, text)})
    assert isinstance(finding.reason, GpuConfigRefused)
    assert finding.why == "the agent refuses it and keeps tonnage-system/device-plugin-config[default]"


async def test_kub_5_a_registration_that_is_older_than_kubelet(node: SickNode) -> None:
    os.utime(node.root / PLUGINS / "kubelet.sock", (1.2e9, 1.2e9))
    (finding,) = await plugin_findings(node, {"/readyz": (200, "ok"), "/metrics": (200, HEALTHY)})
    assert (type(finding.reason), "nvidia.com/gpu" in finding.reason.message) == (DeviceUnregistered, True)


async def test_kub_5_a_resource_that_was_withdrawn_long_ago_is_not_missed(node: SickNode) -> None:
    os.utime(node.root / PLUGINS / "kubelet.sock", (1.05e9, 1.05e9))
    former = HEALTHY.splitlines()[2].replace("gpu", "gpu.shared").replace("1.1e+09", "1e+09")
    assert (
        await plugin_findings(node, {"/readyz": (200, "ok"), "/metrics": (200, f"{HEALTHY}{former}\n")}) == ()
    )


async def test_a_page_of_nonsense_is_no_finding_and_no_traceback(node: SickNode) -> None:
    odd = 'tonnage_agent_devices{resource="a\n\x00 nan\ntonnage_agent_ready x\n' * 1000
    assert await plugin_findings(node, {"/readyz": (200, odd), "/metrics": (200, odd)}) == ()


async def test_an_api_server_that_hangs_holds_up_nobody(node: SickNode) -> None:
    async def hanging() -> ClusterFacts | None:
        await asyncio.Event().wait()
        return None

    looking = Looking(node.root, "node", "none", deadline_s=0.5, cluster_deadline_s=0.5)
    facts = await NodeLook(looking, hanging, lambda _: None).facts()
    assert facts.cluster is None
    assert facts.troubles["cluster"] == "no answer within 0.5 s"
