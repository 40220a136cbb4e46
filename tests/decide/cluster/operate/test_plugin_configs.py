"""SHR-1: the ConfigMap that a ClusterPolicy names becomes that of the agents."""

from __future__ import annotations

import pytest

from tonnage.decide.cluster.operate.plugin_configs import (
    ConfigCopy,
    config_copy,
    counters_copy,
    layouts_copy,
)
from tonnage.model.actions.cluster import ApplyConfigMap
from tonnage.model.gpu_policy import ConfigMapChoice, GpuPolicy, SeenConfigMap

SOURCE = SeenConfigMap("gpu-operator", "time-slicing", {"any": "a", "t4": "b"})
EMPTY = SeenConfigMap("tonnage-system", "device-plugin-config", {})
PATH = "gpu-operator/time-slicing"


def applied(contents: dict[str, str], source: str = PATH) -> ConfigCopy:
    return ConfigCopy(ApplyConfigMap("tonnage-system", "device-plugin-config", contents, source))


def copied(**contents: str) -> SeenConfigMap:
    return SeenConfigMap("tonnage-system", "device-plugin-config", contents, PATH)


@pytest.mark.parametrize(
    ("choice", "source", "target", "answer"),
    [
        pytest.param(("", ""), None, EMPTY, ConfigCopy(), id="no name: the agents' own is left alone"),
        pytest.param(
            ("time-slicing", ""), SOURCE, EMPTY, applied({"any": "a", "t4": "b"}), id="it is copied"
        ),
        pytest.param(
            ("time-slicing", "any"),
            SOURCE,
            EMPTY,
            applied({"any": "a", "t4": "b", "default": "a"}),
            id="nodes without a label run the default",
        ),
        pytest.param(
            ("time-slicing", "any"), SOURCE, copied(any="a", t4="b", default="a"), ConfigCopy(), id="once"
        ),
        pytest.param(
            ("time-slicing", ""), SOURCE, copied(any="old"), applied({"any": "a", "t4": "b"}), id="it follows"
        ),
        pytest.param(("", ""), None, copied(any="a"), applied({}, ""), id="without a name the copy goes"),
    ],
)
def test_how_it_follows(
    choice: tuple[str, str], source: SeenConfigMap | None, target: SeenConfigMap, answer: ConfigCopy
) -> None:
    assert (
        config_copy(GpuPolicy("p", plugin_config=ConfigMapChoice(*choice)), source, target, "gpu-operator")
        == answer
    )


@pytest.mark.parametrize(
    ("choice", "source", "target", "words"),
    [
        pytest.param(("gone", ""), None, EMPTY, "gpu-operator/gone does not exist", id="it is gone"),
        pytest.param(
            ("time-slicing", "no"), SOURCE, EMPTY, "has no key no; its keys: any, t4", id="a key is missing"
        ),
        pytest.param(
            ("time-slicing", ""),
            SOURCE,
            SeenConfigMap("tonnage-system", "device-plugin-config", {"mine": "x"}),
            "has configurations of its own",
            id="the agents have their own",
        ),
        pytest.param(
            ("time-slicing", "any"),
            SeenConfigMap("gpu-operator", "time-slicing", {"any": "a", "default": "b"}),
            EMPTY,
            "rename the key",
            id="two defaults",
        ),
    ],
)
def test_the_last_good_one_stays(
    choice: tuple[str, str], source: SeenConfigMap | None, target: SeenConfigMap, words: str
) -> None:
    answer = config_copy(
        GpuPolicy("p", plugin_config=ConfigMapChoice(*choice)), source, target, "gpu-operator"
    )
    assert answer.action is None
    assert answer.refusal is not None
    assert answer.refusal.facts["field"] == answer.problem.partition(": ")[0]
    assert words in answer.problem
    assert answer.problem.startswith("spec.devicePlugin.config.")


COUNTERS = SeenConfigMap("tonnage-system", "device-metrics-counters", {})


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        pytest.param(None, COUNTERS, "gpu-operator/metrics does not exist", id="no such ConfigMap"),
        pytest.param(
            SeenConfigMap("gpu-operator", "metrics", {"a": ""}),
            COUNTERS,
            "has no key dcgm-metrics.csv; its keys: a",
            id="another key",
        ),
        pytest.param(
            SeenConfigMap("gpu-operator", "metrics", {"dcgm-metrics.csv": "x"}),
            SeenConfigMap("tonnage-system", "device-metrics-counters", {"counters.csv": "y"}),
            "has counters of its own",
            id="counters of the chart's values",
        ),
    ],
)
def test_counters_that_cannot_be_copied_say_why(
    source: SeenConfigMap | None, target: SeenConfigMap, problem: str
) -> None:
    policy = GpuPolicy("p", counters=ConfigMapChoice("metrics"))
    copied = counters_copy(policy, source, target, "gpu-operator")
    assert problem in copied.problem
    assert copied.problem.startswith("spec.dcgmExporter.config.name: ")
    assert copied.action is None


@pytest.mark.parametrize(
    ("name", "source", "refused"),
    [
        pytest.param("default-mig-parted-config", None, False, id="what NVIDIA's operator makes itself"),
        pytest.param("layouts", None, True, id="a user's"),
    ],
)
def test_layouts_that_nobody_made_are_the_agents_own(
    name: str, source: SeenConfigMap | None, refused: bool
) -> None:
    policy = GpuPolicy("p", mig_config=ConfigMapChoice(name))
    target = SeenConfigMap("tonnage-system", "default-mig-parted-config", {})
    answer = layouts_copy(policy, source, target, "gpu-operator")
    assert (answer.refusal is not None, answer.action) == (refused, None)
