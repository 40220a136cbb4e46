"""What a pretended container may tell the agent that it runs: every option of `tonnage node`, and its side.

On a node a container is fenced in by its runtime. On the twin the agent runs in the process of the person who
applied the manifest, so that nothing that the manifest says may reach beyond the folder of the node.
"""

from __future__ import annotations

import ipaddress
import logging
import posixpath
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click
from click.core import ParameterSource

from tonnage.adapters.http.address import parse_address
from tonnage.cli.node.command import NodeArguments, command, node_arguments
from tonnage.cli.node.nvidia_flags import REFUSED_EXPORTER_FLAGS, REFUSED_FLAGS
from tonnage.cli.node.plugin_flags import CommandEnvironment
from tonnage.model.errors import Problem
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext
from tonnage.twin.kubelet.node_spec import NodePaths

_LOG: Final = logging.getLogger(__name__)
_SCENARIO: Final = "scenario:"
_FIRST_FREE_PORT: Final = 1024


class Side(StrEnum):
    """What becomes of an option of the agent in a pretended container."""

    VALUE = "a value that only the agent and the API server see"
    PATH = "a path, looked for below the node's folder"
    PRETENDED = "pretended: the log says what would be done"
    REFUSED = "refused"


_VALUES: Final = (
    *("node_name", "config_map", "node_label", "default_config", "fallback_strategies"),
    *("config_compatibility", "labels", "namespace", "pod_name", "pod_uid", "verbose"),
    *("mig_config_map", "mig_evict", "mig_cordon", "mig_pause_operands"),
    *("mig_strategy", "fail_on_init_error", "pass_device_specs", "device_list_strategy"),
    *("device_id_strategy", "gdrcopy_enabled", "gds_enabled", "mofed_enabled", "cdi_annotation_prefix"),
    *("cdi_feature_flags", "cdi_disable_hooks", "shared_devices_allocation_policy"),
    *("device_discovery_strategy", "imex_channel_ids", "imex_required", "disable_health_checks"),
    *("enable_health_checks", "oneshot", "no_timestamp", "sleep_interval", "use_node_feature_api"),
    *("collect_interval", "kubernetes_virtual_gpus", "nvidia_resource_names", "hostname_label"),
    *("claims", "operands", "wait_for_adoption"),
    *("no_hostname", "use_old_namespace", "replace_blanks_in_model_name", "xid_count_window_size"),
    *("kubernetes_enable_pod_labels", "kubernetes_pod_label_allowlist_regex", "kubernetes_enable_pod_uid"),
    *("series_limit", "attribute_processes", "exporter_only"),
    *("clock_events_count_window_size", "exporter_devices", "kubernetes"),
)
_PATHS: Final = (
    *("devices", "root", "config", "kubelet_socket", "driver_root_ctr_path"),
    # Fields of the configuration, which takes no path with a step back; the agent's root comes first.
    *("driver_root", "dev_root", "nvidia_cdi_hook_path", "mps_root", "output_file", "machine_type_file"),
    *("collectors", "hpc_job_mapping_dir", "web_config_file", "kubelet_root_dir"),
)
_PRETENDED: Final = ("metrics_address", "exporter_address", "mig_host_root", "mig_reboot")
_ONE_CLUSTER: Final = "the agent speaks to the cluster that its pod is in"
_ELSEWHERE: Final = ("kubeconfig", "context", "standalone")
_REFUSED: Final = (
    *_ELSEWHERE,
    *("help", "dump"),
    *(
        flag.flag.lstrip("-").replace("-", "_")
        for flag in (*REFUSED_FLAGS, *REFUSED_EXPORTER_FLAGS)
        if flag.flag
    ),
)
SIDES: Final[Mapping[str, Side]] = MappingProxyType(
    {
        **dict.fromkeys(_VALUES, Side.VALUE),
        **dict.fromkeys(_PATHS, Side.PATH),
        **dict.fromkeys(_PRETENDED, Side.PRETENDED),
        **dict.fromkeys(_REFUSED, Side.REFUSED),
    }
)
"""By what click calls the option. One that is not here is refused."""


def agent_arguments_on_the_twin(context: ContainerContext, kubeconfig: Path) -> NodeArguments:
    """What the container's command line says to the agent, seen from outside the container.

    Its paths are below the node's root, and so are pretended devices in place of NVML's. Its pods have no
    network of their own: who wants to be reached at any address of a pod is not served there.
    `kubeconfig` is the only one that its variable `KUBECONFIG` may name.
    Raises click.ClickException for what `tonnage node` does not take, or not here.
    """
    words = list(context.argv)
    for name in ("tonnage", "node"):
        if words[:1] == [name]:
            del words[0]
    # Without names of its own the option --help is unknown: it would print to the terminal of the twin.
    parsed = command.make_context(
        "tonnage node", words, obj=CommandEnvironment(context.env), help_option_names=[]
    )
    _refuse_what_is_elsewhere(parsed, context.env.get("KUBECONFIG", ""), kubeconfig)
    arguments = node_arguments(parsed)
    root = below(context.node_root, arguments["root"])
    arguments["root"] = root
    arguments["devices"] = _devices(arguments["devices"], context.node_root)
    arguments["metrics_address"] = _served(arguments["metrics_address"])
    exporter = arguments["exporter"]
    arguments["exporter"] = replace(
        exporter,
        on_demand=True,
        address=exporter.address if served_port(exporter.address) else _served(exporter.address),
        collectors=exporter.collectors and below(root, exporter.collectors),
        jobs=exporter.jobs and below(root, exporter.jobs),
        web_config=exporter.web_config and below(root, exporter.web_config),
        web_root=root,
    )
    arguments["config"] = arguments["config"] and below(root, arguments["config"])
    arguments["driver_root"] = arguments["driver_root"] and below(root, arguments["driver_root"])
    arguments["mig_host_root"] = arguments["mig_host_root"] and below(root, arguments["mig_host_root"])
    if arguments["kubelet_socket"].startswith("/"):
        arguments["kubelet_socket"] = _without_steps_back(arguments["kubelet_socket"])
    if arguments["kubelet_root_dir"].startswith("/"):
        arguments["kubelet_root_dir"] = _without_steps_back(arguments["kubelet_root_dir"])
    return arguments


def below(root: Path, path: Path | str) -> Path:
    """The path with `root` in the place of `/`: no step back leads above it.

    >>> str(below(Path("/nodes/a"), "/../../etc/x")), str(below(Path("/nodes/a"), "x"))
    ('/nodes/a/etc/x', '/nodes/a/x')
    """
    return root / _without_steps_back(str(path)).lstrip("/")


def _without_steps_back(path: str) -> str:
    return posixpath.normpath(f"/{path}")


def _refuse_what_is_elsewhere(parsed: click.Context, named: str, kubeconfig: Path) -> None:
    """Raises click.UsageError: it was given an option that has no meaning here, or another's kubeconfig."""
    for option in parsed.command.params:
        name = option.name or ""
        if parsed.get_parameter_source(name) in (None, ParameterSource.DEFAULT):
            continue
        if name in _ELSEWHERE or name not in SIDES:
            why = _ONE_CLUSTER if name in _ELSEWHERE else "it is not among those that a container may give"
            raise click.UsageError(f"{option.opts[0]} cannot be used on the twin: {why}.", parsed)
    if named and named != str(kubeconfig):
        problem = f"KUBECONFIG cannot be {named[:200]!r} on the twin"
        raise click.UsageError(f"{problem}: {_ONE_CLUSTER}. Leave the variable out.", parsed)


def _devices(source: str, node: Path) -> str:
    """Pretended ones, of the node or of another file of its."""
    if source == "nvml":
        return f"{_SCENARIO}{NodePaths(node).hardware}"
    if not source.startswith(_SCENARIO) or not (file := source.removeprefix(_SCENARIO).strip()):
        return source  # the agent refuses it
    return f"{_SCENARIO}{below(node, file)}"


def served_port(text: str) -> int:
    """The port of the pod at which an exporter is to be served at every address; 0: it is not.

    >>> served_port(":9400"), served_port("127.0.0.1:9400"), served_port("")
    (9400, 0, 0)
    """
    address = parse_address(text) if text else None
    if address is None or isinstance(address, Problem):
        return 0
    every = not address.host or ipaddress.ip_address(address.host).is_unspecified
    return address.port if every else 0


def _served(text: str) -> str:
    """Where metrics are served: an address of this machine alone, or nowhere.

    What a pod serves at any of its addresses would be served at any of the machine's here, to everybody.
    """
    address = parse_address(text) if text else None
    if address is None or isinstance(address, Problem):
        return text
    local = bool(address.host) and ipaddress.ip_address(address.host).is_loopback
    if local and (address.port == 0 or address.port >= _FIRST_FREE_PORT):
        return text
    _LOG.info("would serve metrics, which the twin does at loopback addresses alone: address=%s", text)
    return ""
