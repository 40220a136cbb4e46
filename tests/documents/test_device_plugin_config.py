"""Device-plugin configuration v1: what is honoured, and what is refused with line, field and remedy."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tonnage.documents.device_plugin_config import parse_device_plugin_config
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.names import GPU, ResourceName
from tonnage.model.plugin_settings import (
    CdiSettings,
    ExtraDevice,
    FeatureSettings,
    ImexSettings,
    MigStrategy,
    NamePattern,
    Override,
    SharingKind,
)
from tonnage.model.sharing import (
    DeviceIdStrategy,
    DeviceListStrategy,
    PluginConfig,
    SharedPolicy,
    SharedResource,
)


def parsed(text: str) -> PluginConfig:
    return parse_device_plugin_config(text, source="f")


def refused(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    return caught.value.problems


def sliced(entries: str, options: str = "") -> str:
    return f"version: v1\nsharing:\n  timeSlicing:\n{options}    resources:\n{entries}"


SHR_2 = sliced(
    "    - name: nvidia.com/gpu\n      replicas: 4\n",
    "    renameByDefault: true\n    failRequestsGreaterThanOne: true\n",
)


def test_shr_2_renamed_four_replicas_that_refuse_more_than_one() -> None:
    shared = SharedResource(GPU, ResourceName("nvidia.com/gpu.shared"), 4)
    assert parsed(SHR_2) == PluginConfig((shared,), fail_requests_greater_than_one=True)


@pytest.mark.parametrize("text", ["", "version: v1", "flags: {}", "version: v1\nflags: {migStrategy: none}"])
def test_without_sharing_devices_are_exclusive(text: str) -> None:
    assert parsed(text) == PluginConfig()


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param("name: gpu, replicas: 2", SharedResource(GPU, GPU, 2), id="not renamed, bare name"),
        pytest.param(
            "name: gpu, replicas: 2, rename: slice, devices: [0, '1', GPU-a]",
            SharedResource(GPU, ResourceName("nvidia.com/slice"), 2, ("0", "1", "GPU-a")),
            id="renamed and selected",
        ),
        pytest.param(
            "name: gpu, replicas: 2, rename: a.io/b, devices: 3",
            SharedResource(GPU, ResourceName("a.io/b"), 2, 3),
            id="a count of devices",
        ),
        pytest.param("name: gpu, replicas: 2, devices: all", SharedResource(GPU, GPU, 2), id="all devices"),
    ],
)
def test_entries(entry: str, expected: SharedResource) -> None:
    assert parsed(sliced(f"    - {{{entry}}}")).shared == (expected,)


def test_plugin_flags_are_honoured() -> None:
    config = parsed(
        "flags:\n  plugin:\n    deviceListStrategy: [envvar, cdi-cri]\n    deviceIDStrategy: index\n"
        "    sharedDevicesAllocationPolicy: packed\n  gfd: {sleepInterval: 60s, oneshot: false}\n"
    )
    assert config.device_list == (DeviceListStrategy.ENVVAR, DeviceListStrategy.CDI_CRI)
    assert config.device_id is DeviceIdStrategy.INDEX
    assert config.shared_policy is SharedPolicy.PACKED


@pytest.mark.parametrize(
    ("text", "where", "what", "remedy"),
    [
        pytest.param(
            sliced("    - name: nvidia.com/gpu\n      replicas: 1\n"),
            "f:6:7 sharing.timeSlicing.resources[0].replicas",
            "number of replicas must be >= 2, found 1",
            "leave the sharing section out for exclusive use",
            id="SHR-3: one replica",
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: 0}"),
            "f:5:",
            "must be >= 2, found 0",
            "leave the",
            id="none",
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: 999999}"), "f:5:", "must be <= 512", "memory", id="huge"
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: '4'}"), "f:5:", "valid integer", "", id="text for a number"
        ),
        pytest.param(
            sliced("      []"), "f:4:5", "no resources specified", "leave sharing out", id="empty list"
        ),
        pytest.param(
            "sharing:\n  timeSlicing: {resources: [{name: gpu, replicas: 2}]}\n  mps: {resources: []}",
            "f:3:3 sharing.mps",
            "timeSlicing and mps exclude each other",
            "keep one",
            id="SHR-4: MPS and time-slicing together",
        ),
        pytest.param(
            "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}",
            "f:1:11",
            "using MPS requires --mps-root to be specified",
            "/run/nvidia/mps",
            id="MPS without a folder",
        ),
        pytest.param(
            "flags: {mpsRoot: /mps}\nsharing:\n  mps:\n    resources:\n    - {name: gpu, replicas: 49}",
            "f:5:",
            "invalid MPS configuration: invalid device maximum allowed replicas exceeded: 49 > 48",
            "at most 48",
            id="SHR-4: more replicas than an MPS server has clients",
        ),
        pytest.param(
            "flags: {mpsRoot: /m}\nsharing: {mps: {resources: [{name: gpu, replicas: 2, devices: ['0:1']}]}}",
            "f:2:",
            "sharing using MPS is not supported for MIG devices: 0:1",
            "whole devices",
            id="MPS for a MIG device",
        ),
        pytest.param(
            "version: v2", "f:1:1 version", "unknown version: v2", "version: v1", id="another version"
        ),
        pytest.param(
            "flags: {migStrategy: some}", "f:1:9", "unknown MIG strategy: some", "mixed", id="no strategy"
        ),
        pytest.param(
            "flags: {plugin: {deviceListStrategy: env}}",
            "f:1:18",
            "invalid --device-list-strategy option: invalid strategy: env",
            "cdi-cri",
            id="list",
        ),
        pytest.param(
            "flags: {plugin: {deviceIDStrategy: name}}",
            "f:1:18",
            "invalid --device-id-strategy option: name",
            "uuid, index",
            id="ids",
        ),
        pytest.param(
            "flags: {plugin: {sharedDevicesAllocationPolicy: even}}",
            "f:1:18",
            "invalid --shared-devices-allocation-policy option: even",
            "spread-strict",
            id="policy",
        ),
        pytest.param(
            "flags: {plugin: {deviceListStrategy: []}}", "f:1:18", "no --device-list", "envvar", id="no list"
        ),
        pytest.param(
            "flags: {plugin: {cdiAnnotationPrefix: nvidia}}", "f:1:18", "no prefix", "slash", id="prefix"
        ),
        pytest.param(
            "flags: {plugin: {containerDriverRoot: /run/nvidia}}",
            "f:1:18",
            "another driver root in a running agent",
            "--driver-root-ctr-path",
            id="a driver root that the agent cannot move to",
        ),
        pytest.param(
            "flags: {nvidiaDevRoot: dev}", "f:1:9", "no absolute path: 'dev'", "begins with /", id="folder"
        ),
        pytest.param(
            "flags: {nvidiaDriverRoot: /a/../b}", "f:1:9", "no absolute path", "", id="a way out of a folder"
        ),
        pytest.param(
            "flags: {deviceDiscoveryStrategy: tegra}",
            "f:1:9",
            "finds no devices by tegra",
            "auto",
            id="tegra",
        ),
        pytest.param(
            "flags: {deviceDiscoveryStrategy: wsl}",
            "f:1:9",
            "invalid device discovery strategy: wsl",
            "nvml",
            id="discovery",
        ),
        pytest.param(
            "flags: {gfd: {sleepInterval: 1 min}}", "f:1:15", "no duration", "60s, 5m", id="interval"
        ),
        pytest.param(
            "resources: {gpus: [{pattern: A100*, name: A_100}]}", "f:1:37", "no resource name", "", id="name"
        ),
        pytest.param(
            "resources: {gpus: [{pattern: '', name: a}]}", "f:1:21", "at least 1 character", "", id="pattern"
        ),
        pytest.param(
            "imex: {channelIDs: [0, 1]}",
            "f:1:8 imex.channelIDs",
            "invalid IMEX config: channelIDs must be [] or [0]; found [0, 1]",
            "",
            id="IMEX",
        ),
        pytest.param(
            "version: v1\nsharin: {}",
            "f:2:1 sharin",
            "unknown field sharin",
            "did you mean sharing?",
            id="typo",
        ),
        pytest.param(
            sliced("    - {name: gpu, replica: 2}"),
            "f:5:",
            "unknown field replica",
            "did you mean replicas?",
            id="deep typo",
        ),
        pytest.param(
            "sharing: {}\nsharing: {}", "f:2:1 sharing", "duplicate key", "keep one", id="duplicate"
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: 2, devices: 1}"),
            "f:5:",
            "shared and exclusive",
            "rename",
            id="mixed names",
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: 2, rename: a, devices: []}"),
            "f:5:",
            "no device is selected",
            "all",
            id="nothing selected",
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: 2, rename: a, devices: [-1]}"),
            "f:5:",
            "'-1' selects no device",
            "an index",
            id="an index below zero",
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: 2, rename: a, devices: [x]}"),
            "f:5:",
            "'x' selects no",
            "index",
            id="no device",
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: 2, devices: 0}"), "f:5:", "must be > 0", "", id="no devices"
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: 2}\n    - {name: gpu, replicas: 3}"),
            "f:6:",
            "no device",
            "select",
            id="starved",
        ),
        pytest.param(
            sliced("    - {name: mig-1g.5gb, replicas: 2}"),
            "f:5:",
            "nvidia.com/mig-1g.5gb is no resource",
            "migStrategy: mixed",
            id="MIG resource without MIG",
        ),
        pytest.param(
            "resources: {gpus: [{pattern: '*', name: card}]}\n" + sliced("    - {name: gpu, replicas: 2}"),
            "f:6:",
            "nvidia.com/gpu is no resource",
            "share nvidia.com/card",
            id="a name that no device has any more",
        ),
        pytest.param(
            "resources: {gpus: [{pattern: 'A100*', name: a100}]}\n"
            + sliced("    - {name: gpu, replicas: 2, rename: a100}"),
            "f:6:",
            "shared and exclusive devices would both be nvidia.com/a100",
            "another name",
            id="the name of other devices",
        ),
        pytest.param(
            "flags: {migStrategy: mixed}\n" + sliced("    - {name: gpu, replicas: 2, rename: mig-1g.5gb}"),
            "f:6:",
            "shared and exclusive devices would both be nvidia.com/mig-1g.5gb",
            "another name",
            id="the name of MIG devices",
        ),
        pytest.param(
            sliced(
                f"    - {{name: {'a' * 50}, replicas: 2}}",
                "    renameByDefault: true\n",
            ),
            "f:6:",
            "at most 63 characters",
            "shorter rename",
            id="too long once renamed",
        ),
        pytest.param(
            sliced("    - {name: Gpu, replicas: 2}"), "f:5:", "is no resource name", "", id="bad name"
        ),
        pytest.param("[]", "f:1:1", "should be an object", "", id="a list"),
        pytest.param("sharing: {timeSlicing: {resources: [}}", "f:1:", "no valid YAML", "", id="broken YAML"),
    ],
)
def test_refused_with_place_and_remedy(text: str, where: str, what: str, remedy: str) -> None:
    found = refused(text)
    fitting = [p for p in found if what in p.what and p.where.startswith(where) and remedy in p.remedy]
    assert fitting, [str(problem) for problem in found]


@pytest.mark.parametrize(
    ("plugin", "what"),
    [
        ("cdiDisableHooks: [create-symlink]", "unknown hook of CDI specs: create-symlink"),
        ("cdiFeatureFlags: [enable-magic]", "unknown feature of CDI specs: enable-magic"),
        ("cdiFeatureFlags: [enable-coherent-annotations]", "no such feature of Tonnage's CDI specs"),
        ("cdiFeatureFlags: [enable-explicit-driver-libraries]", "no such feature of Tonnage's CDI specs"),
    ],
)
def test_what_cdi_specs_cannot_have_is_refused(plugin: str, what: str) -> None:
    (problem,) = refused(f"flags: {{plugin: {{{plugin}}}}}")
    assert what in problem.what
    assert problem.remedy


@pytest.mark.parametrize("field", ["outputFile", "machineTypeFile"])
def test_a_file_of_feature_discovery_is_an_absolute_path(field: str) -> None:
    (problem,) = refused(f"flags: {{gfd: {{{field}: a/b}}}}")
    assert problem.what == "no absolute path: 'a/b'"


def test_every_problem_at_once() -> None:
    found = refused(sliced("    - {name: gpu, replicas: 1}\n    - {name: gpu, replicas: 0, nme: x}"))
    assert [p.where.split()[0] for p in found] == ["f:5:19", "f:6:19", "f:6:32"]


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
  gfd: {oneshot: true, noTimestamp: true, sleepInterval: 1h0m5.5s, outputFile: "", machineTypeFile: /m}
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
        features=FeatureSettings(True, False, 3605.5, "", "/m", False),
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


MPS = "flags: {mpsRoot: /mps}\nsharing: {mps: {resources: [{name: gpu, replicas: 8}]}}"


def with_daemon(text: str, *, lenient: bool = False) -> PluginConfig:
    return parse_device_plugin_config(text, source="f", lenient=lenient)


def test_shr_4_mps_is_read_whole_where_a_control_daemon_is_run() -> None:
    config = with_daemon(MPS)
    assert (config.sharing_kind, config.shared[0].replicas, config.mps_root) == (SharingKind.MPS, 8, "/mps")
    assert config.fail_requests_greater_than_one
    relaxed = with_daemon(MPS.replace("mps: {", "mps: {failRequestsGreaterThanOne: false, "))
    assert not relaxed.fail_requests_greater_than_one


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (MPS.replace("{mpsRoot: /mps}", "{}"), "using MPS requires --mps-root to be specified"),
        (MPS.replace("{mpsRoot", "{migStrategy: mixed, mpsRoot"), "using --mig-strategy=mixed is not supp"),
        (MPS.replace("8", "1"), "number of replicas must be >= 2"),
    ],
)
def test_shr_4_mps_is_refused_for_what_it_cannot_do(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        with_daemon(text)


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
    with pytest.raises(ConfigError, match="f:1:1 flags: input should be an object"):
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
    document = yaml.safe_load(EVERY_FIELD)
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
                part[key] = yaml.safe_load(EVERY_FIELD)
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
