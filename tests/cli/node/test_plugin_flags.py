"""NVIDIA's flags and variables on `tonnage node`: a DaemonSet of theirs is understood as it stands."""

from __future__ import annotations

import socket
from typing import Any

import click
import pytest

from tonnage.agent.config.reading import Reading
from tonnage.cli.node.command import NodeArguments, command, node_arguments
from tonnage.cli.node.nvidia_flags import PLUGIN_FLAGS, REFUSED_EXPORTER_FLAGS, REFUSED_FLAGS, RefusedFlag
from tonnage.cli.node.plugin_flags import CommandEnvironment
from tonnage.decide.node.choose_config import Wishes
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.devices.health import FaultClass, HealthPolicy, Signal
from tonnage.model.devices.sharing import DeviceIdStrategy, DeviceListStrategy, PluginConfig, SharedPolicy
from tonnage.model.errors import ConfigError
from tonnage.model.node.plugin_settings import (
    CdiSettings,
    ExtraDevice,
    FeatureSettings,
    ImexSettings,
    MigStrategy,
)


def told(*words: str, **environment: str) -> NodeArguments:
    given = CommandEnvironment({"NODE_NAME": "a", **environment})
    return node_arguments(command.make_context("tonnage node", list(words), obj=given))


def config(*words: str, text: str = "", **environment: str) -> PluginConfig:
    found = told(*words, **environment)
    return parse_device_plugin_config(
        text, source="f", overrides=found["overrides"], lenient=found["lenient"]
    )


EVERYTHING = {
    "--mig-strategy": "mixed",
    "--fail-on-init-error": "true",
    "--driver-root": "/run/nvidia/driver",
    "--dev-root": "/run/nvidia/dev",
    "--driver-root-ctr-path": "/host",
    "--pass-device-specs": "true",
    "--device-list-strategy": "envvar,cdi-cri",
    "--device-id-strategy": "index",
    "--gdrcopy-enabled": "1",
    "--gds-enabled": "T",
    "--mofed-enabled": "True",
    "--cdi-annotation-prefix": "nvidia.cdi.k8s.io/",
    "--nvidia-cdi-hook-path": "/usr/bin/nvidia-cdi-hook",
    "--cdi-feature-flags": "disable-nvsandboxutils",
    "--cdi-disable-hooks": "all",
    "--mps-root": "/run/nvidia/mps",
    "--shared-devices-allocation-policy": "packed",
    "--device-discovery-strategy": "nvml",
    "--imex-channel-ids": "0",
    "--imex-required": "true",
    "--disable-health-checks": "79, xids",
    "--enable-health-checks": "13",
    "--oneshot": "true",
    "--no-timestamp": "true",
    "--sleep-interval": "1h0m5s",
    "--output-file": "/features.d/gpus",
    "--machine-type-file": "/machine",
    "--use-node-feature-api": "false",
}
DECIDED = PluginConfig(
    device_list=(DeviceListStrategy.ENVVAR, DeviceListStrategy.CDI_CRI),
    device_id=DeviceIdStrategy.INDEX,
    shared_policy=SharedPolicy.PACKED,
    mig_strategy=MigStrategy.MIXED,
    pass_device_specs=True,
    driver_root="/run/nvidia/driver",
    dev_root="/run/nvidia/dev",
    extras=(ExtraDevice.GDRCOPY, ExtraDevice.GDS, ExtraDevice.MOFED),
    cdi=CdiSettings("nvidia.cdi.k8s.io/", "/usr/bin/nvidia-cdi-hook", ("disable-nvsandboxutils",), ("all",)),
    imex=ImexSettings((0,), required=True),
    mps_root="/run/nvidia/mps",
    health=HealthPolicy(frozenset(Signal) - {Signal.XID}, {79: FaultClass.APPLICATION, 13: FaultClass.RESET}),
    features=FeatureSettings(True, False, 3605.0, "/features.d/gpus", "/machine", False),
    fail_on_init_error=True,
)


def test_every_flag_is_followed() -> None:
    assert [flag.names[0] for flag in PLUGIN_FLAGS] == list(EVERYTHING)
    words = [word for pair in EVERYTHING.items() for word in pair]
    assert config(*words) == DECIDED
    assert config(*(f"{flag}={value}" for flag, value in EVERYTHING.items())) == DECIDED
    assert str(told(*words)["driver_root"]) == "/host"


def test_every_variable_is_followed() -> None:
    variables = {flag.variables[0]: EVERYTHING[flag.names[0]] for flag in PLUGIN_FLAGS}
    assert config(**variables) == DECIDED
    assert str(told(**variables)["driver_root"]) == "/host"


def test_every_other_name_is_the_same_flag() -> None:
    for flag in PLUGIN_FLAGS:
        value = EVERYTHING[flag.names[0]]
        known = told(flag.names[0], value)["overrides"]
        for name in flag.names[1:]:
            words = [f"{name}={value}"] if name.startswith("--") else [name, value]
            assert told(*words)["overrides"] == known
        for variable in flag.variables[1:]:
            (found,) = told(**{variable: value})["overrides"]
            assert (found.path, found.value, found.where) == (known[0].path, known[0].value, variable)


def test_the_command_line_wins_over_the_environment_over_the_text() -> None:
    text = "flags: {migStrategy: none, plugin: {deviceIDStrategy: index}}"
    assert config(text=text, MIG_STRATEGY="mixed").mig_strategy is MigStrategy.MIXED
    both = config("--mig-strategy=single", text=text, MIG_STRATEGY="mixed")
    assert (both.mig_strategy, both.device_id) == (MigStrategy.SINGLE, DeviceIdStrategy.INDEX)
    assert config(text=text, MIG_STRATEGY="") == config(text=text)


def test_a_switch_needs_no_value_and_takes_one() -> None:
    alone = config("--pass-device-specs", "--mig-strategy=single")
    assert (alone.pass_device_specs, alone.mig_strategy) == (True, MigStrategy.SINGLE)
    assert not config("--pass-device-specs=false", PASS_DEVICE_SPECS="true").pass_device_specs


def test_a_list_may_be_given_piece_by_piece() -> None:
    given = config("--device-list-strategy=cdi-cri", "--device-list-strategy", "envvar,volume-mounts")
    assert [strategy.value for strategy in given.device_list] == ["cdi-cri", "envvar", "volume-mounts"]


@pytest.mark.parametrize("text", ["", "version: v1\n", "version: v1\nflags: {gdsEnabled: true}\n"])
def test_a_wrong_value_is_told_with_the_flag_or_variable_that_said_it(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config("--imex-channel-ids=7", text=text, MIG_STRATEGY="wrong", DP_DISABLE_HEALTHCHECKS="79,foo")
    places = {problem.where for problem in caught.value.problems}
    assert places == {"--imex-channel-ids", "MIG_STRATEGY", "DP_DISABLE_HEALTHCHECKS"}


@pytest.mark.parametrize(
    ("words", "environment", "text"),
    [
        (["--pass-device-specs=maybe"], {}, "'maybe' is neither true nor false"),
        ([], {"GDS_ENABLED": "on"}, "'on' is neither true nor false"),
        (["--imex-channel-ids=a"], {}, "'a' is not a list of numbers"),
        (["--mig-stratgy=none"], {}, "No such option '--mig-stratgy'"),
        (["--config-compatibility=loose"], {}, "'loose' is not one of 'strict', 'nvidia'"),
    ],
)
def test_what_no_flag_can_say_is_refused(words: list[str], environment: dict[str, str], text: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        told(*words, **environment)
    assert text in caught.value.format_message()


def test_nvidia_s_own_daemon_set_is_understood() -> None:
    """Environment and mounts of the static manifest and of the chart with everything set."""
    environment: dict[str, Any] = {
        "MPS_ROOT": "/run/nvidia/mps",
        "MIG_STRATEGY": "single",
        "FAIL_ON_INIT_ERROR": "false",
        "NVIDIA_MIG_MONITOR_DEVICES": "all",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "DEVICE_LIST_STRATEGY": "volume-mounts",
        "CONFIG_FILE": "/config/config.yaml",
        "TONNAGE_CONFIG_COMPATIBILITY": "nvidia",
    }
    found = told("--standalone", **environment)
    assert (str(found["config"]), found["lenient"]) == ("/config/config.yaml", True)
    decided = Reading(Wishes("a/b"), found["overrides"], found["lenient"]).parsed("", "built-in")
    assert decided.mig_strategy is MigStrategy.SINGLE
    assert decided.device_list == (DeviceListStrategy.VOLUME_MOUNTS,)


def test_a_node_needs_a_name_unless_it_stands_alone() -> None:
    alone = node_arguments(command.make_context("tonnage node", ["--standalone"], obj=CommandEnvironment({})))
    assert alone["node_name"] == socket.gethostname().lower()
    with pytest.raises(click.UsageError, match="--node-name"):
        node_arguments(command.make_context("tonnage node", [], obj=CommandEnvironment({})))


@pytest.mark.parametrize(
    ("words", "environment", "expected"),
    [
        ([], {}, "/var/lib/kubelet/device-plugins/kubelet.sock"),
        (["--kubelet-socket="], {}, ""),
        ([], {"KUBELET_SOCKET": "/k.sock"}, "/k.sock"),
    ],
)
def test_where_to_register(words: list[str], environment: dict[str, str], expected: str) -> None:
    assert told(*words, **environment)["kubelet_socket"] == expected


def test_nvidia_s_feature_discovery_is_understood() -> None:
    """The environment of its container in NVIDIA's chart, and of the config manager beside it."""
    environment = {
        "GFD_SLEEP_INTERVAL": "infinite",
        "GFD_NO_TIMESTAMP": "true",
        "GFD_FAIL_ON_INIT_ERROR": "false",
        "GFD_MIG_STRATEGY": "mixed",
        "MIG_STRATEGY": "mixed",
        "GFD_USE_NODE_FEATURE_API": "true",
        "NAMESPACE": "gpu",
        "POD_NAME": "gfd-x7k2p",
        "ONESHOT": "false",
        "NODE_LABEL": "example.com/config",
        "DEFAULT_CONFIG": "basic",
        "FALLBACK_STRATEGIES": "named,single",
        "SEND_SIGNAL": "false",
    }
    found = told(**environment)
    decided = config(**environment)
    assert decided.features == FeatureSettings(False, False, None, use_api=True)
    assert (decided.mig_strategy, decided.fail_on_init_error) == (MigStrategy.MIXED, False)
    assert (found["labels"], found["namespace"], found["pod_name"]) == ("nfd-object", "gpu", "gfd-x7k2p")
    assert (found["node_label"], found["default_config"]) == ("example.com/config", "basic")
    assert found["fallback_strategies"] == ("named", "single")


@pytest.mark.parametrize(
    ("words", "environment", "labels"),
    [
        ([], {}, "none"),
        (["--use-node-feature-api"], {}, "nfd-object"),
        ([], {"USE_NODE_FEATURE_API": "false"}, "nfd-file"),
        (["--labels=direct"], {"USE_NODE_FEATURE_API": "false"}, "direct"),
    ],
)
def test_where_labels_go(words: list[str], environment: dict[str, str], labels: str) -> None:
    assert told(*words, **environment)["labels"] == labels


@pytest.mark.parametrize(
    "refused",
    [*REFUSED_FLAGS, *REFUSED_EXPORTER_FLAGS],
    ids=lambda refused: refused.variable or refused.flag,
)
def test_what_would_have_no_effect_is_refused_with_what_to_do(refused: RefusedFlag) -> None:
    ways: list[tuple[list[str], dict[str, str]]] = []
    if refused.variable and "1" not in refused.harmless:
        ways.append(([], {refused.variable: "1"}))
    if refused.flag:
        ways += [([f"{refused.flag}=1"], {}), ([refused.flag, "1"], {})]
    if refused.short:
        ways.append(([refused.short, "1"], {}))
    for words, environment in ways:
        with pytest.raises(click.UsageError) as caught:
            told(*words, **environment)
        assert refused.remedy in caught.value.format_message()
    for value in refused.harmless:
        assert told(**{refused.variable: value})


def test_dcgm_exporters_short_flags_and_variables_are_its_long_ones() -> None:
    pairs = {
        "-a": ("--exporter-address", "LISTEN", ":9401"),
        "-f": ("--collectors", "COLLECTORS", "/counters.csv"),
        "-c": ("--collect-interval", "INTERVAL", "5000"),
        "-d": ("--exporter-devices", "DEVICES_STR", "g:0"),
        "-k": ("--kubernetes", "KUBERNETES", "false"),
        "-x": ("--xid-count-window-size", "XID_COUNT_WINDOW_SIZE", "60000"),
    }
    short = [word for flag, (*_, value) in pairs.items() for word in (flag, value)]
    named = [f"{name}={value}" for name, _, value in pairs.values()]
    variables = {f"DCGM_EXPORTER_{name}": value for _, name, value in pairs.values()}
    exporter = told(*short, "-n")["exporter"]
    assert exporter == told(*named, "--no-hostname")["exporter"]
    assert exporter == told(**variables, DCGM_EXPORTER_NO_HOSTNAME="true")["exporter"]
    assert (exporter.address, exporter.interval_s, exporter.hostname) == (":9401", 5.0, "")


def test_a_choice_of_devices_that_is_none_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="g:0,2-3"):
        told("--exporter-devices=i:4")
    assert told("--exporter-devices=g:1")["exporter"].choice.gpus == frozenset({1})


def test_all_that_would_have_no_effect_is_said_at_once() -> None:
    with pytest.raises(click.UsageError) as caught:
        told("--signal=1", KUBE_API_QPS="5", MIG_STRATEGY="none", GFD_MIG_STRATEGY="mixed")
    said = caught.value.format_message()
    assert all(
        text in said for text in ("--signal ", "KUBE_API_QPS ", "MIG_STRATEGY and GFD_MIG_STRATEGY differ")
    )


@pytest.mark.parametrize("words", [["--labels=direct"], ["--labels=nfd-object"], ["--use-node-feature-api"]])
def test_labels_that_need_an_api_server_are_refused_without_one(words: list[str]) -> None:
    with pytest.raises(click.UsageError, match="--labels nfd-file"):
        told("--standalone", *words)
    assert told("--standalone", "--labels=nfd-file")["labels"] == "nfd-file"


def test_the_command_line_settles_variables_that_differ() -> None:
    given = config("--mig-strategy=single", MIG_STRATEGY="none", GFD_MIG_STRATEGY="mixed")
    assert given.mig_strategy is MigStrategy.SINGLE
