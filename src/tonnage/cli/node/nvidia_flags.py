"""Flags and variables of NVIDIA's device plugin and GPU feature discovery, each with its field.

Source: NVIDIA/k8s-device-plugin v0.20: cmd/nvidia-device-plugin, gpu-feature-discovery and config-manager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import click

from tonnage.model.json import JsonValue

TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def boolean(text: str) -> bool:
    """As Go reads one."""
    if text not in TRUE | FALSE:
        raise click.BadParameter(f"{text[:40]!r} is neither true nor false")
    return text in TRUE


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _words(text: str) -> list[JsonValue]:
    """Words between commas."""
    return [*_split(text)]


def _numbers(text: str) -> list[JsonValue]:
    words = _split(text)
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise click.BadParameter(f"{text[:40]!r} is not a list of numbers")
    return [int(word) for word in words]


@dataclass(frozen=True, slots=True)
class PluginFlag:
    """One flag: its names, its variables, and the field of the configuration that it sets."""

    names: tuple[str, ...]
    variables: tuple[str, ...]
    path: tuple[str, ...]
    read: Callable[[str], JsonValue]
    help: str
    metavar: str = ""

    @property
    def repeats(self) -> bool:
        """Whether it may be given several times, each time for a part of its value."""
        return self.read in (_words, _numbers)

    @property
    def switches(self) -> bool:
        """Whether it needs no value."""
        return self.read is boolean

    @property
    def parameter(self) -> str:
        """What click calls its value."""
        return self.names[0].lstrip("-").replace("-", "_")


def _plugin(name: str) -> tuple[str, ...]:
    return ("flags", "plugin", name)


def _gfd(name: str) -> tuple[str, ...]:
    return ("flags", "gfd", name)


PLUGIN_FLAGS: Final = (
    PluginFlag(
        ("--mig-strategy",),
        ("MIG_STRATEGY", "GFD_MIG_STRATEGY"),
        ("flags", "migStrategy"),
        str,
        "How MIG devices are advertised.",
        "none|single|mixed",
    ),
    PluginFlag(
        ("--fail-on-init-error",),
        ("FAIL_ON_INIT_ERROR", "GFD_FAIL_ON_INIT_ERROR"),
        ("flags", "failOnInitError"),
        boolean,
        "End with an error when the devices cannot be read at start [default: wait, not ready].",
    ),
    PluginFlag(
        ("--driver-root", "--nvidia-driver-root"),
        ("NVIDIA_DRIVER_ROOT",),
        ("flags", "nvidiaDriverRoot"),
        str,
        "The driver's root folder on the host.",
        "DIR",
    ),
    PluginFlag(
        ("--dev-root", "--nvidia-dev-root"),
        ("NVIDIA_DEV_ROOT",),
        ("flags", "nvidiaDevRoot"),
        str,
        "The folder on the host whose dev/ has the device nodes [default: the driver's root].",
        "DIR",
    ),
    PluginFlag(
        ("--driver-root-ctr-path", "--container-driver-root"),
        ("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
        _plugin("containerDriverRoot"),
        str,
        "Where the driver's root is visible to this process [default: /driver-root if it is there, else the"
        " system's library search].",
        "DIR",
    ),
    PluginFlag(
        ("--pass-device-specs",),
        ("PASS_DEVICE_SPECS",),
        _plugin("passDeviceSpecs"),
        boolean,
        "Also return device nodes from Allocate.",
    ),
    PluginFlag(
        ("--device-list-strategy",),
        ("DEVICE_LIST_STRATEGY",),
        _plugin("deviceListStrategy"),
        _words,
        "How a container learns its devices: envvar, volume-mounts, cdi-annotations, cdi-cri; auto chooses.",
        "LIST",
    ),
    PluginFlag(
        ("--device-id-strategy",),
        ("DEVICE_ID_STRATEGY",),
        _plugin("deviceIDStrategy"),
        str,
        "How containers identify devices.",
        "uuid|index",
    ),
    PluginFlag(
        ("--gdrcopy-enabled",),
        ("GDRCOPY_ENABLED",),
        ("flags", "gdrcopyEnabled"),
        boolean,
        "Give containers GDRCopy.",
    ),
    PluginFlag(
        ("--gds-enabled",),
        ("GDS_ENABLED",),
        ("flags", "gdsEnabled"),
        boolean,
        "Give containers GPUDirect Storage.",
    ),
    PluginFlag(
        ("--mofed-enabled",), ("MOFED_ENABLED",), ("flags", "mofedEnabled"), boolean, "Give containers MOFED."
    ),
    PluginFlag(
        ("--cdi-annotation-prefix",),
        ("CDI_ANNOTATION_PREFIX",),
        _plugin("cdiAnnotationPrefix"),
        str,
        "Prefix of annotations that name CDI devices.",
        "PREFIX",
    ),
    PluginFlag(
        ("--nvidia-cdi-hook-path", "--nvidia-ctk-path"),
        ("NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"),
        _plugin("nvidiaCTKPath"),
        str,
        "Program on the host that runs the hooks of CDI specs.",
        "FILE",
    ),
    PluginFlag(
        ("--cdi-feature-flags",),
        ("CDI_FEATURE_FLAGS",),
        _plugin("cdiFeatureFlags"),
        _words,
        "Feature flags of CDI specs.",
        "LIST",
    ),
    PluginFlag(
        ("--cdi-disable-hooks",),
        ("CDI_DISABLE_HOOKS",),
        _plugin("cdiDisableHooks"),
        _words,
        "Hooks to leave out of CDI specs, or all.",
        "LIST",
    ),
    PluginFlag(
        ("--mps-root",),
        ("MPS_ROOT",),
        ("flags", "mpsRoot"),
        str,
        "Folder of MPS on the host.",
        "DIR",
    ),
    PluginFlag(
        ("--shared-devices-allocation-policy",),
        ("SHARED_DEVICES_ALLOCATION_POLICY",),
        _plugin("sharedDevicesAllocationPolicy"),
        str,
        "Which replicas come first: distributed, packed, spread, spread-strict.",
        "POLICY",
    ),
    PluginFlag(
        ("--device-discovery-strategy",),
        ("DEVICE_DISCOVERY_STRATEGY",),
        ("flags", "deviceDiscoveryStrategy"),
        str,
        "How devices are found.",
        "auto|nvml",
    ),
    PluginFlag(
        ("--imex-channel-ids",),
        ("IMEX_CHANNEL_IDS",),
        ("imex", "channelIDs"),
        _numbers,
        "IMEX channels of every container.",
        "0",
    ),
    PluginFlag(
        ("--imex-required",),
        ("IMEX_REQUIRED",),
        ("imex", "required"),
        boolean,
        "Refuse devices where IMEX channels are missing.",
    ),
    PluginFlag(
        ("--disable-health-checks",),
        ("DP_DISABLE_HEALTHCHECKS",),
        ("health", "disable"),
        _words,
        "Xids to ignore; xids for all Xids, all for every health check.",
        "LIST",
    ),
    PluginFlag(
        ("--enable-health-checks",),
        ("DP_ENABLE_HEALTHCHECKS",),
        ("health", "enable"),
        _words,
        "Xids to check though they are ignored by default; all for every Xid.",
        "LIST",
    ),
    PluginFlag(
        ("--oneshot",),
        ("GFD_ONESHOT",),
        _gfd("oneshot"),
        boolean,
        "Publish labels once for each configuration.",
    ),
    PluginFlag(
        ("--no-timestamp",),
        ("GFD_NO_TIMESTAMP",),
        _gfd("noTimestamp"),
        boolean,
        "Leave out the label with the start time.",
    ),
    PluginFlag(
        ("--sleep-interval",),
        ("GFD_SLEEP_INTERVAL",),
        _gfd("sleepInterval"),
        str,
        "How often labels are corrected: 60s, infinite.",
        "DURATION",
    ),
    PluginFlag(
        ("--output-file", "--output", "-o"),
        ("GFD_OUTPUT_FILE",),
        _gfd("outputFile"),
        str,
        "File for labels with --labels nfd-file; empty: standard output.",
        "FILE",
    ),
    PluginFlag(
        ("--machine-type-file",),
        ("GFD_MACHINE_TYPE_FILE",),
        _gfd("machineTypeFile"),
        str,
        "File with the machine type.",
        "FILE",
    ),
    PluginFlag(
        ("--use-node-feature-api",),
        ("GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"),
        ("flags", "useNodeFeatureAPI"),
        boolean,
        "Without --labels: publish them as nfd-object, or with false as nfd-file.",
    ),
)


@dataclass(frozen=True, slots=True)
class RefusedFlag:
    """One that would have no effect here, and what to do instead.

    `harmless` values of its variable ask for what is so anyway. `short`: another name of the flag.
    """

    flag: str
    variable: str
    remedy: str
    harmless: frozenset[str] = frozenset()
    short: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The flag's names; none where there is a variable alone."""
        return tuple(name for name in (self.short, self.flag) if name)


_BY_API: Final = "configurations are read from the API server: name their ConfigMap with --config-map"
_PACED: Final = "the agent writes only changes; remove it"
_NOBODY: Final = "the agent signals no other process; remove it"
REFUSED_FLAGS: Final = (
    RefusedFlag("--kube-api-qps", "KUBE_API_QPS", _PACED),
    RefusedFlag("--kube-api-burst", "KUBE_API_BURST", _PACED),
    RefusedFlag("--config-file-srcdir", "CONFIG_FILE_SRCDIR", _BY_API),
    RefusedFlag("--config-file-dst", "CONFIG_FILE_DST", _BY_API),
    RefusedFlag("--send-signal", "SEND_SIGNAL", _NOBODY, FALSE),
    RefusedFlag("--signal", "SIGNAL", _NOBODY),
    RefusedFlag("--process-to-signal", "PROCESS_TO_SIGNAL", _NOBODY),
    RefusedFlag("", "ONESHOT", "configurations are always followed; labels once is GFD_ONESHOT", FALSE),
)
"""Flags and variables of the GPU feature discovery and the config manager."""

_NO_DCGM: Final = "devices are read through NVML, not DCGM; remove it"
_NO_SWITCHES: Final = "NVSwitches are not read without DCGM; remove it"
_NO_CPUS: Final = "CPUs are not read without DCGM; remove it"
_SCENARIO: Final = "use --devices scenario:FILE for simulated devices"
_MOUNTED: Final = "mount the ConfigMap, name its file with --collectors"
_DUMPS: Final = "tonnage node --dump prints what the agent knows; remove it"
_CLAIMS: Final = "devices of claims have their pods anyway; remove it"
_CUT_OFF: Final = "slow clients are cut off anyway; remove it"
_FLEXIBLE: Final = frozenset({"f"})
REFUSED_EXPORTER_FLAGS: Final = (
    RefusedFlag("--address", "", "write --exporter-address"),
    RefusedFlag("--remote-hostengine-info", "DCGM_REMOTE_HOSTENGINE_INFO", _NO_DCGM, short="-r"),
    RefusedFlag("--enable-dcgm-log", "DCGM_EXPORTER_ENABLE_DCGM_LOG", _NO_DCGM, FALSE),
    RefusedFlag("--dcgm-log-level", "DCGM_EXPORTER_DCGM_LOG_LEVEL", _NO_DCGM, frozenset({"NONE"})),
    RefusedFlag("--switch-devices", "DCGM_EXPORTER_OTHER_DEVICES_STR", _NO_SWITCHES, _FLEXIBLE, "-s"),
    RefusedFlag("--cpu-devices", "DCGM_EXPORTER_CPU_DEVICES_STR", _NO_CPUS, _FLEXIBLE, "-p"),
    RefusedFlag("--fake-gpus", "DCGM_EXPORTER_USE_FAKE_GPUS", _SCENARIO, FALSE),
    RefusedFlag("--configmap-data", "DCGM_EXPORTER_CONFIGMAP_DATA", _MOUNTED, frozenset({"none"}), "-m"),
    RefusedFlag(
        "--kubernetes-gpu-id-type",
        "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE",
        "ids of both types are understood; remove it",
        frozenset({"uid", "device-name"}),
    ),
    RefusedFlag("--kubernetes-enable-dra", "KUBERNETES_ENABLE_DRA", _CLAIMS, FALSE),
    RefusedFlag(
        "--pod-resources-kubelet-socket",
        "DCGM_POD_RESOURCES_KUBELET_SOCKET",
        "kubelet's list is looked for below --root; remove it",
        frozenset({"/var/lib/kubelet/pod-resources/kubelet.sock"}),
    ),
    RefusedFlag("--web-systemd-socket", "DCGM_EXPORTER_SYSTEMD_SOCKET", "write --exporter-address", FALSE),
    RefusedFlag("--debug", "DCGM_EXPORTER_DEBUG", "write --verbose", FALSE),
    RefusedFlag(
        "--log-format", "DCGM_EXPORTER_LOG_FORMAT", "the log is text; remove it", frozenset({"text"})
    ),
    RefusedFlag(
        "--enable-pprof",
        "DCGM_EXPORTER_ENABLE_PPROF",
        "Tonnage has no Go runtime to profile; remove it",
        FALSE,
    ),
    RefusedFlag("--disable-startup-validate", "DISABLE_STARTUP_VALIDATE", _NO_DCGM, FALSE),
    RefusedFlag("--dump-enabled", "DCGM_EXPORTER_DUMP_ENABLED", _DUMPS, FALSE),
    RefusedFlag("--dump-directory", "DCGM_EXPORTER_DUMP_DIRECTORY", _DUMPS),
    RefusedFlag("--dump-retention", "DCGM_EXPORTER_DUMP_RETENTION", _DUMPS),
    RefusedFlag("--dump-compression", "DCGM_EXPORTER_DUMP_COMPRESSION", _DUMPS, TRUE | FALSE),
    RefusedFlag(
        "--enable-gpu-bind-unbind-watch",
        "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH",
        "GPUs that come and go are always followed; remove it",
        TRUE | FALSE,
    ),
    RefusedFlag("--web-read-timeout", "", _CUT_OFF),
    RefusedFlag("--web-write-timeout", "", _CUT_OFF),
    RefusedFlag("", "DCGM_EXPORTER_CONFIG_FILE", "give its settings as flags or variables"),
    RefusedFlag("--container-labels", "DCGM_EXPORTER_CONTAINER_LABELS", "rows name pods; remove it", FALSE),
    RefusedFlag("--container-runtime-socket", "DCGM_CONTAINER_RUNTIME_SOCKET", "rows name pods; remove it"),
)
"""Flags and variables of dcgm-exporter."""
