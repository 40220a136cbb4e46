"""Rules of the whole suite."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from support.forked_cli import warm_tonnage
from support.sampling import MARKER, Sampler, SamplingPlugin
from support.temporary import use_memory
from support.workers import TOGETHER, WorkersPlugin

# A busy machine is not a defect: nothing in the suite fails for being slow.
# CI looks at the same examples each time: it judges a change, not a day's luck. All others look at new ones.
_PATIENT: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", _PATIENT, max_examples=30, derandomize="CI" in os.environ)
settings.register_profile("deep", _PATIENT, max_examples=1500)
settings.load_profile("suite")

EARLY: Final = tuple(
    f"tests/{path}.py"
    for path in (
        "labs/test_lab_runs",
        "agent/test_crash_run",
        "golden/test_golden",
        "fuzz/test_targets",
        "contract/agent/test_agent_as_a_pod",
        "contract/agent/test_agent_bad_gpu",
        "contract/sharing/test_agent_mps",
        "contract/sharing/test_agent_mig",
        "contract/agent/test_agent_killed_registering",
        "cli/up/test_up",
        "docs/test_examples",
        "deploy/chart/test_chart_on_the_twin",
        "twin/cluster/test_bad_days",
        "agent/plugin/test_holders",
        "contract/devices/test_device_health",
        "twin/apiserver/test_kubectl_writing",
        "twin/apiserver/serving/test_http",
        "adapters/mps/test_mps_daemon",
        "deploy/chart/test_chart_webhook",
        "deploy/chart/test_chart_values",
        "deploy/chart/test_chart",
        "fuzz/test_readers",
        "cli/operator/test_handover",
        "controller/test_drivers",
        "controller/test_withdrawal",
        "controller/test_bad_days",
        "controller/test_bad_input",
        "controller/test_crash",
        "agent/mig/test_mig_killed",
        "decide/kubernetes/scheduler/test_fleet",
        "decide/node/health/test_health_properties",
        "diagnose/explain/test_claims_of_alike_nodes",
        "twin/cluster/test_snapshot_of_labs",
        "twin/kubelet/test_hostile_programs",
        "twin/kubectl/test_first_hour",
        "cli/test_bad_days",
    )
)
"""Files that take four seconds or more, the longest first: so no worker is left alone with one."""


SCENES: Final = {
    "tests/adapters/mps/": "scenes of an MPS daemon",
    "tests/adapters/vendors/test_nvml_hangs.py": "scenes of GPUs that hang",
    "tests/contract/agent/": "scenes of an agent and kubelet",
    "tests/contract/sharing/": "scenes of shared GPUs",
    "tests/controller/": "scenes of the controller",
    "tests/deploy/chart/": "scenes of the chart",
    "tests/deploy/release/test_installation.py": "ways to install",
    "tests/docs/test_examples.py": "pages whose examples are run",
    "tests/twin/": "scenes of the twin",
}
"""Tests of which most have a world of their own: every other runs each day."""
EVERY_DAY: Final = ("crash", "killed", "genuine", "recorded")
"""Words in the names of those that run whatever the day: kills, and those that hold a recording."""


_SAMPLING: Final = pytest.StashKey[SamplingPlugin]()
_TONNAGE: Final = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sampling")
    group.addoption(
        "--left-out",
        default=".pytest_cache/left-out.txt",
        help="the file that lists what a sample leaves out",
    )
    group = parser.getgroup("workers")
    group.addoption("--workers", type=int, default=1, help="run tests in so many processes")
    group.addoption(
        "--hung-after",
        type=float,
        default=0.0,
        help="with --workers: after so many seconds a test says where it hangs, and fails; 0: never",
    )
    group.addoption(
        "--second-tries",
        type=int,
        default=0,
        help="with --workers: tests that may fail among others if they then pass alone; they are named",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{TOGETHER}(name): one worker has all of that name")
    plugin = config.stash[_SAMPLING] = SamplingPlugin(config)
    config.pluginmanager.register(plugin, "sampling")
    if (count := config.getoption("--workers")) > 1:
        use_memory(os.environ)
        workers = WorkersPlugin(count, plugin.sampler, config.getoption("--second-tries"))
        config.pluginmanager.register(workers, "workers")


@pytest.fixture(scope="session")
def sample(pytestconfig: pytest.Config) -> Sampler:
    """For a test that goes through rows by itself: `sample.items` are those whose turn it is."""
    return pytestconfig.stash[_SAMPLING].sampler


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Before workers start: `tonnage` is imported once for all of them."""
    if not any("tonnage" in getattr(item, "fixturenames", ()) for item in session.items):
        return (yield)
    with warm_tonnage() as program:
        session.config.stash[_TONNAGE] = program
        return (yield)


@pytest.fixture(scope="session")
def tonnage(pytestconfig: pytest.Config) -> Path:
    """The program, which starts in a hundredth of the time: where it is not the start that is tested."""
    return pytestconfig.stash[_TONNAGE]


def pytest_collectstart() -> None:
    """What is collected stays until the end: nobody need look through it for garbage, now or later."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # clusters come and go: a tenth of the time went into this
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    every_day = any(word in item.nodeid for word in EVERY_DAY) or "sample" in getattr(
        item, "fixturenames", ()
    )
    if every_day or item.get_closest_marker(MARKER):
        return
    for beginning, scenes in SCENES.items():
        if item.nodeid.startswith(beginning):
            item.add_marker(pytest.mark.sampled(scenes, share="1/2"))


@pytest.hookimpl(trylast=True)  # after the order was shuffled
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the sample does; put what takes long first."""
    config.stash[_SAMPLING].sampler.deselect(config, items)
    turns = {file: turn for turn, file in enumerate(EARLY)}
    items.sort(key=lambda item: turns.get(item.nodeid.partition("::")[0], len(turns)))
