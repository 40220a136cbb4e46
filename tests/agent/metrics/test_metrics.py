"""What an agent counts, how Prometheus reads it, and when a probe says that it hangs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.samples import Sample

import tonnage.agent
from tonnage.adapters.http.metrics_page import FamilyCollector
from tonnage.agent.board import NodeBoard
from tonnage.agent.metrics.counters import ALLOCATE_BUCKETS_S, LATE_S, LOOPS, AgentMetrics
from tonnage.agent.metrics.families import agent_families
from tonnage.agent.metrics.probes import ProbeFacts, Probes
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.offer import NodeOffer
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.mps import MpsDaemon, MpsDevice, MpsState
from tonnage.model.devices.sharing import Advertisement, DeviceSlot, NodePlan, PluginConfig
from tonnage.model.names import GPU, ResourceName
from tonnage.ports.node import DeviceBackend

SHARED = ResourceName("nvidia.com/gpu.shared")
RECORDS = Path(__file__).resolve().parents[2] / "data"


class StoppedClock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def metrics(clock: StoppedClock) -> AgentMetrics:
    return AgentMetrics(clock)


def facts(**more: Any) -> ProbeFacts:
    values: dict[str, Any] = {
        "ready": True,
        "readable": True,
        "driver_stuck_s": 0.0,
        "offer": None,
        "config": None,
        "streams": {},
    }
    return ProbeFacts(**(values | more))


BUILD = {"version": "0", "python": "3"}


def registry_of(metrics: AgentMetrics, now: ProbeFacts) -> CollectorRegistry:
    """What the page is made of, without the process' own metrics."""
    registry = CollectorRegistry()
    registry.register(FamilyCollector(lambda: agent_families(metrics, now, BUILD)))
    return registry


def samples(metrics: AgentMetrics, now: ProbeFacts | None = None) -> dict[str, float]:
    """Values by name and labels as the page writes them, the same in both of its formats."""
    registry = registry_of(metrics, now or facts())
    plain = read_text(generate_latest(registry).decode())
    strict = read_openmetrics(openmetrics(registry).decode())  # type: ignore[no-untyped-call]
    read = {_key(one): one.value for family in plain for one in family.samples}
    assert read == {_key(one): one.value for family in strict for one in family.samples}
    return read


def _key(sample: Sample) -> str:
    labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
    return f"{sample.name.removeprefix('tonnage_agent_')}{{{labels}}}"


def offer(*healthy: bool, name: ResourceName = GPU) -> NodeOffer:
    slots = tuple(DeviceSlot(f"GPU-{i}", f"GPU-{i}", healthy=good) for i, good in enumerate(healthy))
    config = ConfigInForce(PluginConfig(), ConfigChoice("", "built-in"))
    return NodeOffer(Inventory(), config, NodePlan(), (), (Advertisement(name, slots),))


DAEMON = MpsDaemon(SHARED, "/mps", 12, (MpsDevice("GPU-0", 1920),))


def test_mps_daemons_say_whether_they_serve(metrics: AgentMetrics) -> None:
    states = {SHARED: MpsState(DAEMON, "signal 9", 2), GPU: MpsState(replace(DAEMON, resource=GPU))}
    found = samples(metrics, facts(offer=replace(offer(True), mps=states)))
    ready = [found[f"mps_daemon_ready{{resource={name}}}"] for name in (SHARED, GPU)]
    restarts = [found[f"mps_daemon_restarts_total{{resource={name}}}"] for name in (SHARED, GPU)]
    assert (ready, restarts) == ([0, 1], [2, 0])


def test_a_fresh_agent_has_every_metric_without_labels_at_zero(metrics: AgentMetrics) -> None:
    found = samples(metrics)
    for name in ("config_errors_total", "allocate_duration_seconds_count", "allocate_duration_seconds_sum"):
        assert found[f"{name}{{}}"] == 0
    assert found["ready{}"] == 1
    assert any(key == "build_info{python=3,version=0}" for key in found)


def test_registrations_are_counted_and_the_last_is_dated(metrics: AgentMetrics, clock: StoppedClock) -> None:
    metrics.not_registered(GPU)
    metrics.registered(GPU)
    clock.time = 2000.0
    metrics.registered(GPU)
    metrics.registered(SHARED)
    found = samples(metrics)
    assert found[f"registrations_total{{resource={GPU},result=registered}}"] == 2
    assert found[f"registrations_total{{resource={GPU},result=failed}}"] == 1
    assert found[f"registrations_total{{resource={SHARED},result=registered}}"] == 1
    assert found[f"last_registration_timestamp_seconds{{resource={GPU}}}"] == 2000


@given(st.lists(st.floats(min_value=0, max_value=20), max_size=50))
def test_a_bucket_holds_every_call_that_took_no_longer(took: list[float]) -> None:
    metrics = AgentMetrics(StoppedClock())
    for seconds in took:
        metrics.allocated(GPU, "granted", seconds)
    found = samples(metrics)
    for bound in ALLOCATE_BUCKETS_S:
        expected = sum(seconds <= bound for seconds in took)
        assert found[f"allocate_duration_seconds_bucket{{le={bound}}}"] == expected
    assert found["allocate_duration_seconds_bucket{le=+Inf}"] == len(took)
    assert found["allocate_duration_seconds_count{}"] == len(took)
    assert found["allocate_duration_seconds_sum{}"] == pytest.approx(sum(took))


def test_allocations_are_counted_by_result(metrics: AgentMetrics) -> None:
    for result in ("granted", "granted", "refused", "failed"):
        metrics.allocated(SHARED, result, 0.0)
    found = samples(metrics)
    counted = {result: found[f"allocations_total{{resource={SHARED},result={result}}}"] for result in
               ("granted", "refused", "failed")}  # fmt: skip
    assert counted == {"granted": 2, "refused": 1, "failed": 1}


def test_devices_are_those_that_kubelet_is_told_now(metrics: AgentMetrics) -> None:
    found = samples(metrics, facts(offer=offer(True, False, True), streams={GPU: 2}))
    assert found[f"devices{{resource={GPU},state=advertised}}"] == 3
    assert found[f"devices{{resource={GPU},state=unhealthy}}"] == 1
    assert found[f"list_and_watch_streams{{resource={GPU}}}"] == 2
    assert not any(key.startswith("devices{") for key in samples(metrics)), "what is gone is not shown"


def test_the_configuration_in_force_is_named_even_with_odd_words(metrics: AgentMetrics) -> None:
    odd = 'a/b["\\\n{}=' + "x" * 1000
    config = ConfigInForce(PluginConfig(), ConfigChoice("", odd, "key"), "refused")
    metrics.config_refused()
    found = samples(metrics, facts(config=config))
    assert found[f"config_info{{key=key,source={odd[:200]}}}"] == 1
    assert found["config_refused{}"] == 1
    assert found["config_errors_total{}"] == 1


def test_requests_of_the_api_are_counted_by_verb_resource_and_code(metrics: AgentMetrics) -> None:
    for code in ("200", "200", "429"):
        metrics.api_answered("list", "pods", code)
    found = samples(metrics)
    assert found["api_requests_total{code=200,resource=pods,verb=list}"] == 2
    assert found["api_requests_total{code=429,resource=pods,verb=list}"] == 1


def test_the_page_is_that_of_the_record_to_the_byte(metrics: AgentMetrics, clock: StoppedClock) -> None:
    metrics.not_registered(GPU)
    metrics.registered(GPU)
    clock.time = 1_700_000_000.25
    metrics.registered(SHARED)
    for seconds in (0.0004, 0.001, 0.3, 60.0):
        metrics.allocated(GPU, "granted", seconds)
    metrics.allocated(SHARED, "refused", 0.02)
    metrics.config_refused()
    for code in ("200", "200", "429"):
        metrics.api_answered("list", "pods", code)
    for loop in ("plugin", "devices", "plugin"):
        metrics.turned(loop)
    config = ConfigInForce(PluginConfig(), ConfigChoice("", 'a/b["\\\n{}=ü', "key"), "refused")
    shown = replace(offer(True, False, True), mps={SHARED: MpsState(DAEMON, "signal 9", 2)})
    now = facts(offer=shown, config=config, streams={GPU: 2}, driver_stuck_s=1.5, ready=False)
    registry = registry_of(metrics, now)
    assert generate_latest(registry) == (RECORDS / "agent-metrics.txt").read_bytes()
    strict = openmetrics(registry)  # type: ignore[no-untyped-call]
    assert strict == (RECORDS / "agent-metrics.openmetrics").read_bytes()


def test_the_reference_has_every_metric_with_its_labels(metrics: AgentMetrics) -> None:
    page = Path(__file__).resolve().parents[3] / "docs/reference/agent-metrics.md"
    rows = re.findall(
        r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)*) ?\|", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    documented = {name: set(re.findall(r"\w+", labels)) for name, labels in rows}
    metrics.registered(GPU)
    metrics.allocated(GPU, "granted", 0.0)
    metrics.api_answered("list", "pods", "200")
    metrics.turned("plugin")
    config = ConfigInForce(PluginConfig(), ConfigChoice("", "a", "b"))
    now = replace(offer(True), mps={SHARED: MpsState(DAEMON)})
    keys = samples(metrics, facts(offer=now, config=config, streams={GPU: 1}))
    shown = dict[str, set[str]]()
    for key in keys:
        name, _, labels = key.rstrip("}").partition("{")
        plain = re.sub(r"(?<=duration_seconds)_(bucket|count|sum)$", "", name)
        shown.setdefault(plain, set()).update(re.findall(r"(\w+)=", labels))
    of_claims = documented.pop("claims_refused_total")  # shown where the agent serves claims
    assert of_claims == {"operation", "cause"}
    assert documented == shown


def test_agents_of_one_process_count_for_themselves(clock: StoppedClock) -> None:
    several = [AgentMetrics(clock) for _ in range(3)]
    several[1].config_refused()
    assert [samples(one)["config_errors_total{}"] for one in several] == [0, 1, 0]


_DEVICE = Device(uuid="GPU-0", index=0, product="NVIDIA T4", memory_mib=15360)


@dataclass
class Loops:
    """The loops as the probes see them; everything is well until a test says otherwise."""

    metrics: AgentMetrics
    stuck_s: float = 0.0
    error: str = ""
    inventory: Inventory | None = field(default_factory=lambda: Inventory((_DEVICE,)))
    config: ConfigInForce | None = field(
        default_factory=lambda: ConfigInForce(PluginConfig(), ConfigChoice("", "built-in"))
    )
    known: bool = True
    offer: NodeOffer | None = field(default_factory=lambda: offer(True))
    unregistered: dict[ResourceName, str] = field(default_factory=dict)

    def probes(self) -> Probes:
        board = NodeBoard.blank(StoppedClock())
        board.inventory.publish(self.inventory)
        board.devices_error.publish(self.error)
        board.configuration.publish(self.config)
        board.holds.publish(DeviceHolds(settled=self.known))
        board.offer.publish(self.offer)
        backend = cast(DeviceBackend, SimpleNamespace(stuck_s=lambda: self.stuck_s))
        return Probes(self.metrics, board, backend, lambda: self.unregistered, dict)


@pytest.fixture
def loops(metrics: AgentMetrics) -> Loops:
    return Loops(metrics)


def test_all_is_well(loops: Loops) -> None:
    assert loops.probes().hanging() == ()
    assert loops.probes().missing() == ()
    assert loops.probes().facts().ready


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_that_turns_no_more_is_named_and_the_others_are_not(
    loops: Loops, clock: StoppedClock, loop: str
) -> None:
    for _ in range(int(LATE_S[loop]) // 10 + 1):
        assert loops.probes().hanging() == ()
        clock.time += 10
        for other in LOOPS:
            if other != loop:
                loops.metrics.turned(other)
    late = LATE_S[loop] + 10
    assert loops.probes().hanging() == (f"{loop}: this loop has not run for {late:.0f} s",)
    loops.metrics.turned(loop)
    assert loops.probes().hanging() == ()


def test_the_loop_for_claims_is_missed_only_where_there_is_one(loops: Loops, clock: StoppedClock) -> None:
    loops.metrics.turned("claims")
    clock.time += LATE_S["claims"] + 10
    assert "claims: this loop has not run for 70 s" in loops.probes().hanging()


def test_every_loop_that_says_that_it_turns_has_a_limit() -> None:
    texts = [path.read_text() for path in Path(tonnage.agent.__path__[0]).rglob("*.py")]
    assert {loop for text in texts for loop in re.findall(r'\.turned\("(\w+)"\)', text)} == LATE_S.keys()


def test_loops_that_never_turned_hang_only_after_a_while(loops: Loops, clock: StoppedClock) -> None:
    clock.time += min(LATE_S.values())
    assert loops.probes().hanging() == ()
    clock.time += max(LATE_S.values())
    assert len(loops.probes().hanging()) == len(LOOPS)


@pytest.mark.parametrize(
    ("error", "stuck_s", "lines"),
    [
        pytest.param("hangs", 60.0, (), id="not for long"),
        pytest.param("hangs", 61.0, ("driver: it has not answered for 61 s",), id="for long"),
        pytest.param("", 9999.0, (), id="about one device of several"),
    ],
)
def test_a_driver_that_owes_an_answer_is_no_reason_to_start_anew(
    loops: Loops, error: str, stuck_s: float, lines: tuple[str, ...]
) -> None:
    """The next process would wait for the same answer, and the one before may not end before it comes."""
    loops.error, loops.stuck_s = error, stuck_s
    assert loops.probes().hanging() == ()
    assert loops.probes().missing() == lines
    assert samples(loops.metrics, loops.probes().facts())["driver_stuck_seconds{}"] == stuck_s


def _missing() -> Iterator[Any]:
    yield pytest.param({"inventory": None}, "devices: not read yet", id="not scanned")
    yield pytest.param(
        {"inventory": Inventory(), "error": "NVML: none\n  why: not there\n  remedy: wait"},
        "devices: NVML: none; why: not there; remedy: wait",
        id="no driver yet",
    )
    yield pytest.param({"config": None}, "configuration: not read yet", id="no configuration")
    yield pytest.param(
        {"known": False}, "holders: kubelet has not been asked yet which pods hold devices", id="no holders"
    )
    yield pytest.param({"offer": None}, "offer: not created yet", id="no offer")
    yield pytest.param({"unregistered": {GPU: "refused"}}, f"{GPU}: refused", id="not registered")
    yield pytest.param({"unregistered": {GPU: "x" * 9999}}, f"{GPU}: " + "x" * 500, id="an endless reason")


@pytest.mark.parametrize(("now", "line"), list(_missing()))
def test_what_is_missing_is_a_line_each(metrics: AgentMetrics, now: dict[str, Any], line: str) -> None:
    probes = Loops(metrics, **now).probes()
    assert probes.missing() == (line,)
    assert not probes.facts().ready


def test_devices_that_cannot_be_read_any_more_stay_registered(metrics: AgentMetrics) -> None:
    probes = Loops(metrics, error="the driver does not answer").probes()
    assert probes.missing() == ()
    assert not probes.facts().readable
