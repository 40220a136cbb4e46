"""Device-plugin configuration v1: what is refused, with line, field and remedy."""

from __future__ import annotations

import pytest

from support.plugin_configs import parsed, refused
from tonnage.model.devices.sharing import (
    DeviceIdStrategy,
    DeviceListStrategy,
    PluginConfig,
    SharedPolicy,
    SharedResource,
)
from tonnage.model.names import GPU, ResourceName


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


@pytest.mark.parametrize(
    ("section", "claimed"),
    [
        pytest.param("claims:", (), id="no-value"),
        pytest.param("claims: {}", ("all",), id="every-gpu"),
        pytest.param("claims: {devices: all}", ("all",), id="all"),
        pytest.param("claims: {devices: [0, GPU-a]}", ("0", "GPU-a"), id="by-index-and-uuid"),
    ],
)
def test_gpus_are_chosen_for_claims(section: str, claimed: tuple[str, ...]) -> None:
    assert parsed(section).claimed == claimed


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        pytest.param("[]", "no device is selected", id="none"),
        pytest.param("['0:1']", "'0:1' selects no GPU", id="a-mig-device"),
        pytest.param("[MIG-a]", "'MIG-a' selects no GPU", id="a-mig-device-by-uuid"),
    ],
)
def test_a_gpu_is_claimed_as_a_whole(devices: str, problem: str) -> None:
    assert [each.what for each in refused(f"claims: {{devices: {devices}}}")] == [problem]


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
            sliced("    - {name: gpu, replicas: '4'}"),
            "f:5:",
            "whole number is expected",
            "",
            id="text for a number",
        ),
        pytest.param(
            sliced("      []"), "f:4:5", "no resources specified", "leave sharing out", id="empty list"
        ),
        pytest.param(
            "sharing:\n  timeSlicing: {resources: [{name: gpu, replicas: 2}]}\n  mps: {resources: []}",
            "f:3:3 sharing.mps",
            "timeSlicing and mps cannot be combined",
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
            "flags: {mpsRoot: /run/nvidia/mps}\n"
            "sharing:\n  mps:\n    resources:\n    - {name: gpu, replicas: 49}",
            "f:5:",
            "invalid MPS configuration: invalid device maximum allowed replicas exceeded: 49 > 48",
            "at most 48",
            id="SHR-4: more replicas than an MPS server has clients",
        ),
        pytest.param(
            "flags: {mpsRoot: /run/nvidia/mps}\n"
            "sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: ['0:1']}]}}",
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
            "flags: {plugin: {cdiAnnotationPrefix: nvidia}}",
            "f:1:18",
            "is not the prefix",
            "slash",
            id="prefix",
        ),
        pytest.param(
            "flags: {plugin: {containerDriverRoot: /run/nvidia}}",
            "f:1:18",
            "the driver root of a running agent cannot be changed",
            "--driver-root-ctr-path",
            id="a driver root that the agent cannot move to",
        ),
        pytest.param(
            "flags: {nvidiaDevRoot: dev}", "f:1:9", "is not an absolute path", "begins with /", id="folder"
        ),
        pytest.param(
            "flags: {nvidiaDriverRoot: /a/../b}",
            "f:1:9",
            "is not an absolute path",
            "",
            id="a way out of a folder",
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
            "flags: {gfd: {sleepInterval: 1 min}}", "f:1:15", "is not a duration", "60s, 5m", id="interval"
        ),
        pytest.param(
            "resources: {gpus: [{pattern: A100*, name: A_100}]}",
            "f:1:37",
            "not a resource name",
            "",
            id="name",
        ),
        pytest.param(
            "resources: {gpus: [{pattern: '', name: a}]}", "f:1:21", "the string is empty", "", id="pattern"
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
            "use sharing if you meant that",
            id="typo",
        ),
        pytest.param(
            sliced("    - {name: gpu, replica: 2}"),
            "f:5:",
            "unknown field replica",
            "use replicas if you meant that",
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
            "the list of devices is empty",
            "all",
            id="nothing selected",
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: 2, rename: a, devices: [-1]}"),
            "f:5:",
            "'-1' does not name a device",
            "an index",
            id="an index below zero",
        ),
        pytest.param(
            sliced("    - {name: gpu, replicas: 2, rename: a, devices: [x]}"),
            "f:5:",
            "'x' does not name",
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
            "shared and exclusive devices would both be named nvidia.com/a100",
            "another name",
            id="the name of other devices",
        ),
        pytest.param(
            "flags: {migStrategy: mixed}\n" + sliced("    - {name: gpu, replicas: 2, rename: mig-1g.5gb}"),
            "f:6:",
            "shared and exclusive devices would both be named nvidia.com/mig-1g.5gb",
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
            sliced("    - {name: Gpu, replicas: 2}"), "f:5:", "is not a resource name", "", id="bad name"
        ),
        pytest.param("[]", "f:1:1", "a mapping is expected", "", id="a list"),
        pytest.param(
            "sharing: {timeSlicing: {resources: [}}", "f:1:", "not valid YAML", "", id="broken YAML"
        ),
    ],
)
def test_refused_with_place_and_remedy(text: str, where: str, what: str, remedy: str) -> None:
    refusal = refused(text)
    fitting = [p for p in refusal if what in p.what and p.where.startswith(where) and remedy in p.remedy]
    assert fitting, [str(problem) for problem in refusal]


@pytest.mark.parametrize(
    ("plugin", "what"),
    [
        ("cdiDisableHooks: [create-symlink]", "unknown hook of CDI specs: create-symlink"),
        ("cdiFeatureFlags: [enable-magic]", "unknown feature of CDI specs: enable-magic"),
        ("cdiFeatureFlags: [enable-coherent-annotations]", "CDI specs do not have the feature"),
        ("cdiFeatureFlags: [enable-explicit-driver-libraries]", "CDI specs do not have the feature"),
    ],
)
def test_what_cdi_specs_cannot_have_is_refused(plugin: str, what: str) -> None:
    (problem,) = refused(f"flags: {{plugin: {{{plugin}}}}}")
    assert what in problem.what
    assert problem.remedy


@pytest.mark.parametrize("field", ["outputFile", "machineTypeFile"])
def test_a_file_of_feature_discovery_is_an_absolute_path(field: str) -> None:
    (problem,) = refused(f"flags: {{gfd: {{{field}: a/b}}}}")
    assert problem.what == "'a/b' is not an absolute path"


def test_every_problem_at_once() -> None:
    refusal = refused(sliced("    - {name: gpu, replicas: 1}\n    - {name: gpu, replicas: 0, nme: x}"))
    assert [p.where.split()[0] for p in refusal] == ["f:5:19", "f:6:19", "f:6:32"]
