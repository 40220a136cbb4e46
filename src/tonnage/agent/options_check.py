"""What is wrong with what the agent is told at start, all of it at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tonnage.model.errors import ConfigError, Problem
from tonnage.model.names import CONFIG_LABEL, is_label_key, is_subdomain
from tonnage.model.plugin_settings import LabelPlace

if TYPE_CHECKING:
    from tonnage.agent.main import AgentOptions


def wrong_options(options: AgentOptions) -> Iterator[Problem]:
    """Everything but the address, whatever a configuration's text says."""
    if not is_subdomain(options.node_name):
        why = "it is the name of a Node object: lower-case letters, digits, '-' and '.'"
        yield Problem(f"no node name: {options.node_name[:100]!r}", "--node-name", why)
    maps = {"--config-map": options.config_map}
    if options.mig_config_map:
        maps["--mig-config-map"] = options.mig_config_map
    for flag, where in maps.items():
        namespace, slash, name = where.partition("/")
        if not (slash and is_subdomain(namespace) and is_subdomain(name)):
            yield Problem(f"no ConfigMap: {where[:100]!r}", flag, remedy="write NAMESPACE/NAME")
    if options.devices != "nvml" and not options.devices.removeprefix("scenario:").strip():
        yield Problem("no file after scenario:", "--devices", remedy="write scenario:FILE")
    elif options.devices != "nvml" and not options.devices.startswith("scenario:"):
        what = f"unknown devices {options.devices[:100]!r}"
        yield Problem(what, "--devices", remedy="write nvml or scenario:FILE")
    yield from _wrong_flags(options)


def _wrong_flags(options: AgentOptions) -> Iterator[Problem]:
    """What is wrong with flags and variables whatever a configuration's text says."""
    from tonnage.decide.node.choose_config import unknown_fallbacks

    if options.kubelet_socket and not options.kubelet_socket.startswith("/"):
        what = f"no absolute path: {options.kubelet_socket[:60]!r}"
        yield Problem(what, "--kubelet-socket", remedy="write one that begins with /, or nothing")
    if options.labels not in tuple(LabelPlace):
        remedy = f"one of {', '.join(LabelPlace)}"
        yield Problem(f"nowhere to publish labels: {options.labels[:60]!r}", "--labels", remedy=remedy)
    for flag, name in (("--namespace", options.namespace), ("--pod-name", options.pod_name)):
        if name and not is_subdomain(name):
            yield Problem(f"no name of an object: {name[:60]!r}", flag)
    if options.mig_cordon and not options.mig_evict:
        yield Problem("nobody is evicted to cordon for", "--mig-cordon", remedy="add --mig-evict")
    if options.mig_reboot and options.mig_host_root is None:
        remedy = "add --mig-host-root"
        yield Problem(
            "nothing of the host may be run, so it cannot be restarted", "--mig-reboot", remedy=remedy
        )
    if not is_label_key(options.node_label):
        remedy = f"such as {CONFIG_LABEL}"
        yield Problem(f"no key of a label: {options.node_label[:80]!r}", "--node-label", remedy=remedy)
    if (wrong := unknown_fallbacks(options.fallback_strategies)) is not None:
        yield wrong


def wrong_overrides(options: AgentOptions) -> Iterator[Problem]:
    """What no configuration could be read with: told here beside other problems, else when one is read."""
    if options.overrides:
        from tonnage.documents.device_plugin_config import parse_device_plugin_config

        try:
            parse_device_plugin_config("", source="--config", overrides=options.overrides)
        except ConfigError as error:
            yield from error.problems
