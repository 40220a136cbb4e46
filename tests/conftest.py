"""Rules of the whole suite."""

from __future__ import annotations

import gc
import itertools
import os
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from support.sampling import Sampler, SamplingPlugin

# A busy machine is not a defect: nothing in the suite fails for being slow.
# CI looks at the same examples each time: it judges a change, not a day's luck. All others look at new ones.
_PATIENT: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", _PATIENT, max_examples=50, derandomize="CI" in os.environ)
settings.register_profile("deep", _PATIENT, max_examples=1500)
settings.load_profile("suite")

_EARLY: Final = frozenset(
    f"tests/{path}.py"
    for path in (
        "labs/test_lab_runs",
        "docs/test_examples",
        "twin/kubectl/test_first_hour",
        "deploy/test_chart_on_the_twin",
        "twin/cluster/test_snapshot_of_labs",
        "cli/test_up",
    )
)
"""Files of tests that take seconds each: begun first, so that no worker is left alone with one."""


_SAMPLING: Final = pytest.StashKey[SamplingPlugin]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sampling")
    group.addoption(
        "--left-out",
        default=".pytest_cache/left-out.txt",
        help="the file that lists what a sample leaves out",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Before workers start: they have the seed of this process."""
    plugin = config.stash[_SAMPLING] = SamplingPlugin(config)
    config.pluginmanager.register(plugin, "sampling")


@pytest.fixture(scope="session")
def sample(pytestconfig: pytest.Config) -> Sampler:
    """For a test that goes through rows by itself: `sample.items` are those whose turn it is."""
    return pytestconfig.stash[_SAMPLING].sampler


def pytest_collectstart() -> None:
    """What is collected stays until the end: nobody need look through it for garbage, now or later."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # clusters come and go: a tenth of the time went into this
    gc.enable()


@pytest.hookimpl(trylast=True)  # after the order was shuffled
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the sample does; put long tests where workers begin.

    Each gets a part of the list, and takes of others' ends later.
    """
    config.stash[_SAMPLING].sampler.deselect(config, items)
    files = [list(own) for _, own in itertools.groupby(items, lambda item: item.nodeid.partition("::")[0])]
    early = [own for own in files if own[0].nodeid.partition("::")[0] in _EARLY]
    others = [item for own in files if own not in early for item in own]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = [
        item
        for worker in range(workers)
        for item in (
            *itertools.chain.from_iterable(early[worker::workers]),
            *others[worker * len(others) // workers : (worker + 1) * len(others) // workers],
        )
    ]
