"""DRV-4: which versions of toolkit and device plugin are warned of."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tonnage.decide.cluster.operate.drivers.preflight import version_problems
from tonnage.reading.driver_policy import cluster_driver_policy
from tonnage.wire.nvidia import ClusterPolicy

CHART = {"helm.sh/chart": "gpu-operator-v25.3.4", "app.kubernetes.io/version": "v25.3.4"}


def problems(labels: dict[str, str], **sections: Any) -> list[str]:
    body = {"metadata": {"name": "p", "labels": labels}, "spec": {"driver": {}, **sections}}
    policy = cluster_driver_policy(msgspec.convert(body, ClusterPolicy))
    assert policy is not None
    found = list(version_problems(policy))
    assert not any(problem.blocks for problem in found)
    return [str(problem) for problem in found]


@pytest.mark.parametrize(
    ("labels", "toolkit", "plugin", "parts"),
    [
        pytest.param(CHART, "v1.17.8-ubuntu20.04", "v0.17.4", [], id="those of the chart's release"),
        pytest.param(CHART, "v1.17.5", "v0.17.1", [], id="other patches of them"),
        pytest.param(CHART, "v1.13.4", "v0.14.1", ["toolkit", "devicePlugin"], id="both of an older one"),
        pytest.param(CHART, "", "v0.18.0", ["devicePlugin"], id="the plugin of a newer one"),
        pytest.param({}, "v1.13.4", "v0.14.1", [], id="those of one release, without the chart's label"),
        pytest.param({}, "v1.14.6", "v0.17.4", ["devicePlugin"], id="those of two releases"),
        pytest.param({}, "v1.14.6", "", [], id="one alone, without the chart's label"),
        pytest.param({}, "v9.1.0", "v0.17.4", [], id="a toolkit that no release known has"),
        pytest.param({}, "v1.14.6", "v9.1.0", [], id="a plugin that no release known has"),
        pytest.param(CHART, f"sha256:{'0' * 64}", "v0.17.4", [], id="a digest"),
        pytest.param(CHART, "latest", "v0.17.4", [], id="a tag that is no version"),
    ],
)
def test_versions_are_warned_of_that_were_not_released_together(
    labels: dict[str, str], toolkit: str, plugin: str, parts: list[str]
) -> None:
    sections = {
        part: {"version": version} if version else {}
        for part, version in (("toolkit", toolkit), ("devicePlugin", plugin))
    }
    lines = problems(labels, **sections)
    assert len(lines) == len(parts)
    for line, part in zip(lines, parts, strict=True):
        assert f"leave spec.{part}.version out, or write v" in line


def test_a_part_that_is_off_is_not_warned_of() -> None:
    off = {"enabled": False, "version": "v1.13.4"}
    assert problems(CHART, toolkit=off, devicePlugin={"version": "v0.17.4"}) == []


def test_the_release_is_named_with_what_it_was_released_with() -> None:
    [line] = problems(CHART, toolkit={"version": "v1.13.4"})
    assert line == (
        "spec.toolkit.version v1.13.4 with release 25.3.4 of the GPU operator, which was released with"
        " 1.17.8; leave spec.toolkit.version out, or write v1.17.8"
    )
