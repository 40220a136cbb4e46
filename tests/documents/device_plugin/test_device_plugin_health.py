"""The section `health` of a configuration, and NVIDIA's two variables that say the same."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tonnage.decide.node.health.xids import classes_of
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.devices.health import HealthPolicy, Signal
from tonnage.model.errors import ConfigError
from tonnage.model.node.plugin_settings import Override

IGNORED_BY_NVIDIA = (13, 31, 43, 45, 68, 109)


def policy(health: dict[str, Any] | None = None, **environment: list[Any]) -> HealthPolicy:
    text = yaml.safe_dump({"version": "v1", **({"health": health} if health is not None else {})})
    overrides = [Override(("health", name), words, name.upper()) for name, words in environment.items()]
    return parse_device_plugin_config(text, source="c.yaml", overrides=overrides).health


def counts(found: HealthPolicy, code: int) -> bool:
    """Whether the Xid takes a device out the first time it comes."""
    return not classes_of(code, found)[0].harmless


def test_without_a_section_the_catalogue_decides() -> None:
    assert policy() == policy({}) == HealthPolicy()


@pytest.mark.parametrize(
    ("environment", "out", "left"),
    [
        pytest.param({}, {79, 48, 999}, set(IGNORED_BY_NVIDIA), id="neither"),
        pytest.param(
            {"disable": ["79", " 48 "]}, {95, 999}, {79, 48, 13}, id="a list of those that never count"
        ),
        pytest.param({"disable": ["xids"]}, set(), {79, 48, 999}, id="no Xid counts"),
        pytest.param({"disable": ["ALL"]}, set(), {79, 48, 999}, id="nothing counts"),
        pytest.param({"disable": ["all"], "enable": ["79"]}, {79}, {48, 999}, id="but this one"),
        pytest.param({"disable": ["79"], "enable": ["79"]}, {79}, {13}, id="enable beats disable"),
        pytest.param({"enable": ["13", "109"]}, {13, 109, 79}, {31, 43}, id="of those that NVIDIA ignores"),
        pytest.param({"enable": ["all"]}, {13, 31, 79, 999}, set(), id="every Xid counts"),
        pytest.param({"enable": ["all"], "disable": ["79", "all"]}, {13, 79}, set(), id="against any list"),
    ],
)
def test_nvidias_variables_mean_what_they_mean_there(
    environment: dict[str, list[Any]], out: set[int], left: set[int]
) -> None:
    """Source: k8s-device-plugin, rm/health.go."""
    new_policy = policy(None, **environment)
    assert {code for code in out | left if counts(new_policy, code)} == out


def test_readings_count_unless_everything_is_disabled() -> None:
    assert policy(None, disable=["xids"]).signals == frozenset(Signal) - {Signal.XID}
    assert policy(None, disable=["all"]).signals == frozenset()
    assert policy({"ignore": ["ecc", "nvlink"]}).signals == frozenset(Signal) - {Signal.ECC, Signal.NVLINK}


def test_a_site_gives_classes_and_times() -> None:
    new_policy = policy(
        {"xids": {94: "reset", "79": "information"}, "recoverAfter": "10m", "steadyFor": "30s"}
    )
    assert counts(new_policy, 94)
    assert not counts(new_policy, 79)
    assert (new_policy.recover_after_s, new_policy.steady_s) == (600, 30)


def test_a_variable_wins_over_the_text() -> None:
    new_policy = policy({"xids": {"79": "reboot"}, "disable": [48]}, disable=["79"])
    assert not counts(new_policy, 79)
    assert counts(new_policy, 48), "the text's list is replaced, as every value is"


def test_an_xid_that_is_enabled_keeps_the_sites_class() -> None:
    new_policy = policy({"xids": {"31": "replace"}, "enable": [31, 79]})
    assert [classes_of(code, new_policy)[0].value for code in (31, 79)] == ["replace", "reboot"]


@pytest.mark.parametrize(
    ("health", "what", "where"),
    [
        ({"disable": ["xid"]}, "'xid' is not an Xid", "health.disable"),
        ({"enable": [-1]}, "'-1' is not an Xid", "health.enable"),
        ({"enable": [70000]}, "'70000' is not an Xid", "health.enable"),
        ({"ignore": ["eec"]}, "'eec' is not a signal", "health.ignore"),
        ({"xids": {"seventy": "reset"}}, "'seventy' is not an Xid", "health.xids"),
        ({"xids": {"79": "rebot"}}, "Xid 79: 'rebot' is not a class", "health.xids"),
        ({"recoverAfter": "soon"}, "'soon' is not a duration", "health.recoverAfter"),
        ({"steadyFor": "infinite"}, "must be finite", "health.steadyFor"),
        ({"xid": {}}, "unknown field xid", "health.xid"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(health: dict[str, Any], what: str, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        policy(health)
    (problem,) = caught.value.problems
    assert what in problem.what
    assert problem.where.endswith(f" {where}")
    assert problem.remedy


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        policy({"disable": ["x"], "ignore": ["y"], "xids": {"1": "z"}})
    assert len(caught.value.problems) == 3
