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
from support.sampling import Sampler, SamplingPlugin
from support.workers import TOGETHER, WorkersPlugin

# A busy machine is not a defect: nothing in the suite fails for being slow.
# CI looks at the same examples each time: it judges a change, not a day's luck. All others look at new ones.
_PATIENT: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", _PATIENT, max_examples=50, derandomize="CI" in os.environ)
settings.register_profile("deep", _PATIENT, max_examples=1500)
settings.load_profile("suite")

EARLY: Final = frozenset(
    f"tests/{path}.py"
    for path in (
        "agent/mig/test_mig_killed",
        "agent/test_crash_run",
        "cli/test_bad_days",
        "cli/up/test_up",
        "contract/agent/test_agent_bad_gpu",
        "decide/kubernetes/scheduler/test_fleet",
        "deploy/chart/test_chart_on_the_twin",
        "docs/test_examples",
        "golden/test_golden",
        "labs/test_lab_runs",
        "twin/cluster/test_bad_days",
        "twin/cluster/test_snapshot_of_labs",
        "twin/kubectl/test_first_hour",
    )
)
"""Files that take more than five seconds: begun first, so that no worker is left alone with one."""


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


@pytest.hookimpl(trylast=True)  # after the order was shuffled
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the sample does; put what takes long first."""
    config.stash[_SAMPLING].sampler.deselect(config, items)
    items.sort(key=lambda item: item.nodeid.partition("::")[0] not in EARLY)
