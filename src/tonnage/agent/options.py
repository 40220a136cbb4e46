"""What the agent is told at start, and what is wrong with it, all of it at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.mig.layouts import MigOptions
from tonnage.model.names import CONFIG_LABEL, is_label_key, is_subdomain
from tonnage.model.node.plugin_settings import FALLBACKS, LabelPlace, Override

if TYPE_CHECKING:
    from tonnage.agent.config.reading import Reading

STATE: Final = "var/lib/tonnage"
"""What the agent keeps, below its root."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What the agent is told at start.

    `devices` is `nvml` or `scenario:FILE`. `root` stands before every path of the node: `/var/lib/kubelet`,
    `/var/lib/tonnage`. `config_map` is `NAMESPACE/NAME`; `config` is a file that stands in when neither
    label nor ConfigMap names a configuration. `driver_root` is where the driver's files are visible to this
    process; without it the driver's library is where the system's own search finds it. `metrics_address` is
    `HOST:PORT`, empty for no server. `kubelet_socket` is where to register, empty for nowhere. `overrides`
    win over the text of every configuration; `lenient` reads it as NVIDIA's plugin does. `labels` is where
    the node's labels are published: a `LabelPlace`; a NodeFeature is in `namespace`, else that of the
    ConfigMap, and goes with what owns `pod_name`. `pod_uid` is that pod's: an agent for claims with one
    stands by while the one before has the node. `node_label`, `default_config` and `fallback_strategies`
    are how the node's configuration is found: see `Wishes`. `mig_config_map` is `NAMESPACE/NAME` of MIG
    layouts, made as the node's label wants them; empty: MIG is left alone. Other `mig_*`: see `MigOptions`.
    `claims`: GPUs that the configuration offers as claims are published, and claims prepared;
    `kubelet_root_dir` is then where kubelet has its folders of plugins, on the host. `operands`: other
    programs of the node find NVIDIA's status files, and each part's log, below `/run`. `wait_for_adoption`:
    parts that NVIDIA's operands do, too, stay off until the Node's label says that they were taken over.
    """

    node_name: str
    devices: str = "nvml"
    root: Path = Path("/")
    config: Path | None = None
    config_map: str = "tonnage-system/device-plugin-config"
    driver_root: Path | None = None
    metrics_address: str = ""
    kubelet_socket: str = "/var/lib/kubelet/device-plugins/kubelet.sock"
    overrides: tuple[Override, ...] = ()
    lenient: bool = False
    labels: str = LabelPlace.NONE
    namespace: str = ""
    pod_name: str = ""
    pod_uid: str = ""
    node_label: str = CONFIG_LABEL
    default_config: str = ""
    fallback_strategies: tuple[str, ...] = FALLBACKS
    mig_config_map: str = ""
    mig_evict: bool = False
    mig_cordon: bool = False
    mig_pause: bool = False
    mig_host_root: Path | None = None
    mig_reboot: bool = False
    claims: bool = False
    kubelet_root_dir: str = "/var/lib/kubelet"
    operands: bool = False
    wait_for_adoption: bool = False
    exporter: ExporterSettings = field(default_factory=ExporterSettings)

    @property
    def reading(self) -> Reading:
        """Where the node's configurations are, and how they are read."""
        from tonnage.agent.config.reading import Reading
        from tonnage.decide.node.choose_config import Wishes

        wishes = Wishes(self.config_map, self.node_label, self.default_config, self.fallback_strategies)
        return Reading(wishes, self.overrides, self.lenient, self.labels)

    @property
    def mig(self) -> MigOptions:
        """What it may do about the GPUs' MIG layouts."""
        return MigOptions(
            *(self.mig_config_map, self.mig_evict, self.mig_cordon, self.mig_pause),
            *(self.mig_host_root, self.mig_reboot),
        )


def wrong_options(options: AgentOptions) -> Iterator[Problem]:
    """Everything but the address, whatever a configuration's text says."""
    if not is_subdomain(options.node_name):
        why = "a Node's name consists of lower-case letters, digits, '-' and '.'"
        yield Problem(f"not a node's name: {options.node_name[:100]!r}", "--node-name", why)
    maps = {"--config-map": options.config_map}
    if options.mig_config_map:
        maps["--mig-config-map"] = options.mig_config_map
    for flag, where in maps.items():
        namespace, slash, name = where.partition("/")
        if not (slash and is_subdomain(namespace) and is_subdomain(name)):
            yield Problem(f"not a ConfigMap: {where[:100]!r}", flag, remedy="write NAMESPACE/NAME")
    if options.devices != "nvml" and not options.devices.removeprefix("scenario:").strip():
        yield Problem("scenario: lacks a file name", "--devices", remedy="write scenario:FILE")
    elif options.devices != "nvml" and not options.devices.startswith("scenario:"):
        text = f"unknown devices {options.devices[:100]!r}"
        yield Problem(text, "--devices", remedy="write nvml or scenario:FILE")
    yield from _wrong_flags(options)
    yield from _wrong_exporter(options)


def _wrong_exporter(options: AgentOptions) -> Iterator[Problem]:
    if options.exporter.alone and not options.exporter.address:
        remedy = "add --exporter-address :9400"
        yield Problem("the exporter has no address", "--exporter-only", remedy=remedy)
    if options.exporter.alone and options.metrics_address:
        why = "with --exporter-only no agent runs here that has metrics of its own"
        yield Problem("--metrics-address has no effect", "--exporter-only", why, "remove --metrics-address")


def _wrong_flags(options: AgentOptions) -> Iterator[Problem]:
    """What is wrong with flags and variables whatever a configuration's text says."""
    from tonnage.decide.node.choose_config import unknown_fallbacks

    if options.kubelet_socket and not options.kubelet_socket.startswith("/"):
        text = f"not an absolute path: {options.kubelet_socket[:60]!r}"
        yield Problem(text, "--kubelet-socket", remedy="write a path that begins with /, or leave it empty")
    if not options.kubelet_root_dir.startswith("/"):
        text = f"not an absolute path: {options.kubelet_root_dir[:60]!r}"
        yield Problem(text, "--kubelet-root-dir", remedy="write a path that begins with /")
    if options.labels not in tuple(LabelPlace):
        remedy = f"one of {', '.join(LabelPlace)}"
        yield Problem(f"not a way to publish labels: {options.labels[:60]!r}", "--labels", remedy=remedy)
    names = {"--namespace": options.namespace, "--pod-name": options.pod_name, "--pod-uid": options.pod_uid}
    for flag, name in names.items():
        if name and not is_subdomain(name):
            yield Problem(f"not an object's name: {name[:60]!r}", flag)
    if options.mig_cordon and not options.mig_evict:
        yield Problem("cordoning needs --mig-evict", "--mig-cordon", remedy="add --mig-evict")
    if options.mig_reboot and options.mig_host_root is None:
        remedy = "add --mig-host-root"
        yield Problem("restarting the node needs --mig-host-root", "--mig-reboot", remedy=remedy)
    if not is_label_key(options.node_label):
        remedy = f"such as {CONFIG_LABEL}"
        yield Problem(f"not a label's key: {options.node_label[:80]!r}", "--node-label", remedy=remedy)
    if (wrong := unknown_fallbacks(options.fallback_strategies)) is not None:
        yield wrong


def wrong_overrides(options: AgentOptions) -> Iterator[Problem]:
    """What no configuration could be read with: told here beside other problems, else when one is read."""
    if options.overrides:
        from tonnage.documents.device_plugin.config import parse_device_plugin_config

        try:
            parse_device_plugin_config("", source="--config", overrides=options.overrides)
        except ConfigError as error:
            yield from error.problems
