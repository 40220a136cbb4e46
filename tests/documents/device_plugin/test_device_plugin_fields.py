"""Device-plugin configuration v1: every field is followed, by flags and lenient readers too."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from support.plugin_configs import parsed, refused
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.devices.sharing import (
    DeviceIdStrategy,
    DeviceListStrategy,
    PluginConfig,
    SharedPolicy,
    SharedResource,
)
from tonnage.model.errors import ConfigError
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.plugin_settings import (
    CdiSettings,
    ExtraDevice,
    FeatureSettings,
    ImexSettings,
    MigStrategy,
    NamePattern,
    Override,
    SharingKind,
)

EVERY_FIELD = """
version: v1
flags:
  migStrategy: mixed
  failOnInitError: false
  nvidiaDriverRoot: /run/nvidia/driver/
  nvidiaDevRoot: /
  gdrcopyEnabled: true
  gdsEnabled: true
  mofedEnabled: true
  useNodeFeatureAPI: false
  deviceDiscoveryStrategy: nvml
  mpsRoot: /run/nvidia/mps
  plugin:
    passDeviceSpecs: true
    deviceListStrategy: [cdi-annotations, volume-mounts, cdi-annotations]
    deviceIDStrategy: index
    cdiAnnotationPrefix: nvidia.cdi.k8s.io/
    nvidiaCTKPath: /usr/local/nvidia/toolkit/nvidia-ctk
    containerDriverRoot: /driver-root
    sharedDevicesAllocationPolicy: packed
  gfd:
    {oneshot: true, noTimestamp: true, sleepInterval: 1h0m5.5s, outputFile: "",
     machineTypeFile: /proc/device-tree/model}
resources:
  gpus: [{pattern: "*A100*", name: a100}, {pattern: "*", name: a.io/card}]
  mig: [{pattern: "1g.*", name: small}]
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
    - {name: a100, replicas: 2}
    - {name: small, replicas: 3, devices: ["0:1", MIG-a-b, MIG-GPU-c/1/0], rename: tiny}
    - {name: mig-3g.20gb, replicas: 4, devices: 1}
imex: {channelIDs: [0], required: true}
"""


def test_every_field_is_followed() -> None:
    a100, small = ResourceName("nvidia.com/a100"), ResourceName("nvidia.com/small")
    assert parsed(EVERY_FIELD) == PluginConfig(
        shared=(
            SharedResource(a100, ResourceName("nvidia.com/a100.shared"), 2),
            SharedResource(small, ResourceName("nvidia.com/tiny"), 3, ("0:1", "MIG-a-b", "MIG-GPU-c/1/0")),
            SharedResource(
                ResourceName("nvidia.com/mig-3g.20gb"), ResourceName("nvidia.com/mig-3g.20gb.shared"), 4, 1
            ),
        ),
        device_list=(DeviceListStrategy.CDI_ANNOTATIONS, DeviceListStrategy.VOLUME_MOUNTS),
        device_id=DeviceIdStrategy.INDEX,
        shared_policy=SharedPolicy.PACKED,
        mig_strategy=MigStrategy.MIXED,
        gpu_names=(NamePattern("*A100*", a100), NamePattern("*", ResourceName("a.io/card"))),
        mig_names=(NamePattern("1g.*", small),),
        pass_device_specs=True,
        driver_root="/run/nvidia/driver",
        dev_root="/",
        extras=(ExtraDevice.GDRCOPY, ExtraDevice.GDS, ExtraDevice.MOFED),
        cdi=CdiSettings("nvidia.cdi.k8s.io/", "/usr/local/nvidia/toolkit/nvidia-ctk"),
        imex=ImexSettings((0,), required=True),
        mps_root="/run/nvidia/mps",
        features=FeatureSettings(True, False, 3605.5, "", "/proc/device-tree/model", False),
    )


@pytest.mark.parametrize(
    "text",
    ["version:", "flags:\nsharing:\nimex: {channelIDs: }\n", "flags: {plugin: , nvidiaDriverRoot: ''}"],
)
def test_a_key_without_value_is_its_default(text: str) -> None:
    assert parsed(text) == PluginConfig()


def test_an_unknown_key_is_one_without_value_too() -> None:
    (problem,) = refused("version: v1\nsharin:\nflags:\n")
    assert (problem.where, problem.what) == ("f:2:1 sharin", "unknown field sharin")


def test_the_devices_nodes_are_where_the_driver_is_unless_said_otherwise() -> None:
    assert parsed("flags: {nvidiaDriverRoot: /run/nvidia/driver}").dev_root == "/run/nvidia/driver"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("1m30s", 90), ("1.5h", 5400), ("'250ms'", 0.25), ("5000000000", 5), ("infinite", None)],
)
def test_durations_are_written_as_in_go(text: str, seconds: float | None) -> None:
    assert parsed(f"flags: {{gfd: {{sleepInterval: {text}}}}}").features.interval_s == seconds


MPS = "flags: {mpsRoot: /run/nvidia/mps}\nsharing: {mps: {resources: [{name: gpu, replicas: 8}]}}"


def with_daemon(text: str, *, lenient: bool = False) -> PluginConfig:
    return parse_device_plugin_config(text, source="f", lenient=lenient)


def test_shr_4_mps_is_read_whole_where_a_control_daemon_is_run() -> None:
    config = with_daemon(MPS)
    assert (config.sharing_kind, config.shared[0].replicas, config.mps_root) == (
        SharingKind.MPS,
        8,
        "/run/nvidia/mps",
    )
    assert config.fail_requests_greater_than_one
    relaxed = with_daemon(MPS.replace("mps: {", "mps: {failRequestsGreaterThanOne: false, "))
    assert not relaxed.fail_requests_greater_than_one


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (MPS.replace("{mpsRoot: /run/nvidia/mps}", "{}"), "using MPS requires --mps-root to be specified"),
        (MPS.replace("{mpsRoot", "{migStrategy: mixed, mpsRoot"), "using --mig-strategy=mixed is not supp"),
        (MPS.replace("8", "1"), "number of replicas must be >= 2"),
    ],
)
def test_shr_4_mps_is_refused_for_what_it_cannot_do(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        with_daemon(text)


def test_mps_root_comes_from_the_flag_where_the_configuration_leaves_it_to_the_chart() -> None:
    text = MPS.replace("{mpsRoot: /run/nvidia/mps}", "{}")
    root = Override(("flags", "mpsRoot"), "/run/nvidia/mps", "--mps-root")
    config = parse_device_plugin_config(text, source="f", overrides=(root,))
    assert (config.sharing_kind, config.mps_root) == (SharingKind.MPS, "/run/nvidia/mps")


def test_flags_win_over_variables_over_the_file_and_are_named_when_wrong() -> None:
    text = "flags: {migStrategy: none, plugin: {deviceIDStrategy: index}}"
    told = (
        Override(("flags", "migStrategy"), "single", "--mig-strategy"),
        Override(("imex", "channelIDs"), [0], "IMEX_CHANNEL_IDS"),
        Override(("flags", "plugin", "containerDriverRoot"), "/elsewhere", "--driver-root-ctr-path"),
    )
    config = parse_device_plugin_config(text, source="f", overrides=told)
    assert (config.mig_strategy, config.imex.channels) == (MigStrategy.SINGLE, (0,))
    assert config.device_id is DeviceIdStrategy.INDEX
    wrong = Override(("flags", "migStrategy"), "all", "MIG_STRATEGY")
    with pytest.raises(ConfigError) as caught:
        parse_device_plugin_config(text, source="f", overrides=(wrong,))
    (problem,) = caught.value.problems
    assert (problem.where, problem.what) == ("MIG_STRATEGY", "unknown MIG strategy: all")


def test_a_flag_for_a_section_that_is_no_section_leaves_the_file_s_error() -> None:
    wrong = Override(("flags", "migStrategy"), "single", "--mig-strategy")
    with pytest.raises(ConfigError, match="f:1:1 flags: a mapping is expected"):
        parse_device_plugin_config("flags: 3", source="f", overrides=(wrong,))


LENIENT = """\
version: v1
Flags: {migstrategy: single, colour: red}
sharing:
  timeslicing: {resources: [{name: gpu, replicas: 3, reNAME: x}]}
"""


def test_a_lenient_reader_overlooks_unknown_keys_and_says_which() -> None:
    config = parse_device_plugin_config(LENIENT, source="f", lenient=True)
    assert config.mig_strategy is MigStrategy.SINGLE
    assert config.shared == (SharedResource(GPU, ResourceName("nvidia.com/x"), 3),)
    assert set(config.remarks) == {
        "f:2:1 Flags: read as flags",
        "f:2:9 flags.migstrategy: read as migStrategy",
        "f:2:30 flags.colour: unknown, left out",
        "f:4:3 sharing.timeslicing: read as timeSlicing",
        "f:4:54 sharing.timeSlicing.resources[0].reNAME: read as rename",
    }
    assert {problem.what for problem in refused(LENIENT)} == {
        "unknown field Flags",
        "unknown field timeslicing",
    }


def test_a_lenient_reader_still_refuses_what_cannot_be_followed() -> None:
    with pytest.raises(ConfigError, match="number of replicas must be >= 2"):
        parse_device_plugin_config(LENIENT.replace("replicas: 3", "replicas: 1"), source="f", lenient=True)


def test_shr_4_a_lenient_reader_takes_mps_before_time_slicing() -> None:
    both = MPS.replace("{mps:", "{timeSlicing: {resources: [{name: gpu, replicas: 2}]}, mps:")
    config = with_daemon(both, lenient=True)
    assert (config.sharing_kind, config.shared[0].replicas) == (SharingKind.MPS, 8)
    assert config.remarks == ("f:2:11 sharing.timeSlicing: left out, mps is given too",)


WORDS = sorted(
    {word.strip("-,{}[]\"' ") for word in EVERY_FIELD.replace(":", " ").split()} | {"mps", "all", "-1", "1e9"}
)


@given(st.text() | st.lists(st.sampled_from([*WORDS, *":-,{}[]\n|>&*'", ": ", "\n  "])).map("".join))
def test_no_text_does_more_than_to_be_refused(text: str) -> None:
    for lenient in (False, True):
        try:
            parse_device_plugin_config(text, source="f", lenient=lenient)
        except ConfigError as error:
            assert all(problem.what for problem in error.problems)  # noqa: PT017 - any text may be refused


LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS) | st.text(max_size=20)


@st.composite
def mutations(draw: st.DrawFn) -> object:
    """The document of every field, with some of its parts replaced, renamed, repeated or gone."""
    document = yaml.load(EVERY_FIELD, yaml.CSafeLoader)
    for _ in range(draw(st.integers(1, 6))):
        part: Any = document
        while isinstance(part, dict | list) and part:
            keys = sorted(part) if isinstance(part, dict) else list(range(len(part)))
            key = draw(st.sampled_from(keys))
            if not isinstance(part[key], dict | list) or not part[key] or draw(st.booleans()):
                break
            part = part[key]
        else:
            continue
        match draw(st.sampled_from(["replace", "remove", "rename", "nest"])):
            case "replace":
                part[key] = draw(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3)))
            case "remove":
                del part[key]
            case "rename" if isinstance(part, dict):
                part[draw(st.sampled_from(WORDS))] = part.pop(key)
            case _:
                part[key] = yaml.load(EVERY_FIELD, yaml.CSafeLoader)
    return document


@given(mutations(), st.booleans())
def test_no_document_does_more_than_to_be_refused(document: object, lenient: bool) -> None:
    try:
        config = parse_device_plugin_config(json.dumps(document), source="f", lenient=lenient)
    except ConfigError as error:
        assert all(problem.what for problem in error.problems)  # noqa: PT017 - it may be refused
    else:
        offered = [shared.offered_as for shared in config.shared]
        assert len(offered) == len(set(offered))
        assert all(shared.replicas >= 2 for shared in config.shared)
