"""Flags and variables of dcgm-exporter that mean something without DCGM; `nvidia_flags` refuses the others.

Source: NVIDIA/dcgm-exporter d5e5f51, `pkg/cmd/app.go`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tonnage.cli.node.plugin_flags import EnvironmentOption
from tonnage.model.node.entity_choice import EntityChoice, entity_choice

if TYPE_CHECKING:
    from tonnage.agent.exporter.settings import ExporterSettings

F = TypeVar("F", bound=Callable[..., object])
_SHORTEST_MS: Final = 1000
_LONGEST_MS: Final = 3_600_000
_VGPUS: Final = "KUBERNETES_VIRTUAL_GPUS"


def _chosen(_ctx: click.Context, _parameter: click.Parameter, value: str) -> EntityChoice:
    choice = entity_choice(value)
    if choice is None:
        raise click.BadParameter(f"{value[:40]!r} is not f, g, i, or g: with GPUs such as g:0,2-3")
    return choice


def exporter_options(command: F) -> F:
    """Give a command the flags of the exporter."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _option(*names: str, variable: str, **settings: Any) -> Callable[[F], F]:
    settings["help"] = f"{settings['help']} [env: {variable}]."
    return click.option(*names, cls=EnvironmentOption, envvar=variable, **settings)


_OPTIONS: Final = (
    _option(
        "-a",
        "--exporter-address",
        variable="DCGM_EXPORTER_LISTEN",
        default="",
        metavar="IP:PORT",
        help="Serve device metrics under dcgm-exporter's names at this address; empty: do not serve",
    ),
    _option(
        "-f",
        "--collectors",
        variable="DCGM_EXPORTER_COLLECTORS",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="CSV of counters as for dcgm-exporter, reread on change [default: those of dcgm-exporter]",
    ),
    _option(
        "-c",
        "--collect-interval",
        variable="DCGM_EXPORTER_INTERVAL",
        type=click.IntRange(_SHORTEST_MS, _LONGEST_MS),
        default=30_000,
        show_default=True,
        metavar="MS",
        help="How often devices are read",
    ),
    _option(
        "-d",
        "--exporter-devices",
        variable="DCGM_EXPORTER_DEVICES_STR",
        callback=_chosen,
        default="f",
        show_default=True,
        metavar="f|g|i",
        help="Which devices have rows: f GPUs, and instead of a divided one its parts; g GPUs; i parts;"
        " g:0,2-3 only these",
    ),
    _option(
        "-k",
        "--kubernetes",
        variable="DCGM_EXPORTER_KUBERNETES",
        type=bool,
        is_flag=False,
        flag_value="true",
        default=True,
        show_default=True,
        metavar="true|false",
        help="Say on rows which pod has the device",
    ),
    _option(
        "--kubernetes-virtual-gpus",
        variable=_VGPUS,
        is_flag=True,
        help="Write one row for each pod of a shared device, with its replica; without it, none names a pod",
    ),
    _option(
        "--nvidia-resource-names",
        variable="NVIDIA_RESOURCE_NAMES",
        default="",
        metavar="LIST",
        help="Resources whose holders count besides the agent's own, nvidia.com/gpu and nvidia.com/mig-*",
    ),
    _option(
        "--kubernetes-enable-pod-labels",
        variable="DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS",
        is_flag=True,
        help="Put the labels of pods on rows",
    ),
    _option(
        "--kubernetes-pod-label-allowlist-regex",
        variable="DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX",
        default="",
        metavar="LIST",
        help="Regular expressions (RE2): of the labels of pods, only those whose name one of them matches",
    ),
    _option(
        "--kubernetes-enable-pod-uid",
        variable="DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID",
        is_flag=True,
        help="Put the UIDs of pods on rows",
    ),
    _option(
        "--exporter-only",
        variable="TONNAGE_EXPORTER_ONLY",
        is_flag=True,
        help="Serve device metrics and do nothing else: ask kubelet for holders, advertise no device",
    ),
    _option(
        "--attribute-processes",
        variable="TONNAGE_ATTRIBUTE_PROCESSES",
        is_flag=True,
        help="Divide what is used of a shared device by the processes of its pods, which needs hostPID;"
        " without it, evenly",
    ),
    _option(
        "--series-limit",
        variable="TONNAGE_SERIES_LIMIT",
        type=click.IntRange(0, 1_000_000),
        default=20_000,
        show_default=True,
        metavar="COUNT",
        help="Leave containers out of tonnage_pod_gpu_* where the page would have more series",
    ),
    _option(
        "--hostname-label",
        variable="TONNAGE_HOSTNAME_LABEL",
        type=click.Choice(["Hostname", "hostname"]),
        default="Hostname",
        show_default=True,
        help="The label of the node's name: Hostname in releases of dcgm-exporter up to 4.5",
    ),
    _option(
        "-n",
        "--no-hostname",
        variable="DCGM_EXPORTER_NO_HOSTNAME",
        is_flag=True,
        help="Leave out the host name label",
    ),
    _option(
        "--use-old-namespace",
        variable="DCGM_EXPORTER_USE_OLD_NAMESPACE",
        is_flag=True,
        help="Name the labels pod_name, pod_namespace, container_name and uuid",
    ),
    _option(
        "--replace-blanks-in-model-name",
        variable="DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME",
        is_flag=True,
        help="Write NVIDIA-H100 for the model NVIDIA H100",
    ),
    _option(
        "--hpc-job-mapping-dir",
        variable="DCGM_HPC_JOB_MAPPING_DIR",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Folder of files named after GPUs, one HPC job in each line",
    ),
    _option(
        "-x",
        "--xid-count-window-size",
        variable="DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE",
        type=click.IntRange(_SHORTEST_MS, 24 * _LONGEST_MS),
        default=300_000,
        show_default=True,
        metavar="MS",
        help="The window of DCGM_EXP_XID_ERRORS_COUNT",
    ),
    _option(
        "--clock-events-count-window-size",
        variable="DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE",
        type=click.IntRange(_SHORTEST_MS, _LONGEST_MS),
        default=300_000,
        show_default=True,
        metavar="MS",
        help="The window of DCGM_EXP_CLOCK_EVENTS_COUNT",
    ),
    _option(
        "--web-config-file",
        variable="DCGM_EXPORTER_WEB_CONFIG_FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="TLS, users and headers of device metrics, as Prometheus' exporters take them; reread on change",
    ),
)


def exporter_settings(values: Mapping[str, Any]) -> ExporterSettings:
    """What the flags say; the node's name is that of `--node-name`, else the machine's."""
    from tonnage.agent.exporter.settings import ExporterSettings

    return ExporterSettings(
        address=values["exporter_address"],
        collectors=values["collectors"],
        interval_s=values["collect_interval"] / 1000,
        choice=values["exporter_devices"],
        kubernetes=values["kubernetes"],
        each_holder=values["kubernetes_virtual_gpus"],
        resources=_words(values["nvidia_resource_names"]),
        pod_labels=values["kubernetes_enable_pod_labels"],
        label_patterns=_words(values["kubernetes_pod_label_allowlist_regex"]),
        pod_uid=values["kubernetes_enable_pod_uid"],
        alone=values["exporter_only"],
        processes=values["attribute_processes"],
        series_limit=values["series_limit"],
        hostname="" if values["no_hostname"] else values["node_name"] or socket.gethostname(),
        hostname_label=values["hostname_label"],
        old_namespace=values["use_old_namespace"],
        replace_blanks=values["replace_blanks_in_model_name"],
        jobs=values["hpc_job_mapping_dir"],
        xid_window_ms=values["xid_count_window_size"],
        clock_window_ms=values["clock_events_count_window_size"],
        web_config=values["web_config_file"],
    )


def _words(text: str) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(word for part in text.split(",") if (word := part.strip()))
