"""Paths that a device-plugin configuration may name: who writes its ConfigMap need not be root on nodes."""

from __future__ import annotations

import pytest

from support.plugin_configs import parsed, refused
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.errors import ConfigError
from tonnage.model.node.plugin_settings import Override

VOLUME = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v"
IMAGE = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs"


def text(field: str, path: str) -> str:
    *parents, name = field.split(".")
    return (
        "flags: "
        + "".join(f"{{{each}: " for each in (*parents, name))
        + f'"{path}"'
        + "}" * (len(parents) + 1)
    )


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("plugin.nvidiaCTKPath", f"{VOLUME}/nvidia-ctk"),
        ("plugin.nvidiaCTKPath", f"{IMAGE}/usr/bin/nvidia-ctk"),
        ("plugin.nvidiaCTKPath", "/proc/1/root/usr/bin/nvidia-ctk"),
        ("plugin.nvidiaCTKPath", "/opt/local-path-provisioner/nvidia-ctk"),
        ("plugin.nvidiaCTKPath", "/usr/bin/bash"),
        ("plugin.nvidiaCTKPath", "/usr/sbin/reboot"),
        ("plugin.nvidiaCTKPath", "/user/nvidia-ctk"),
        ("nvidiaDriverRoot", VOLUME),
        ("nvidiaDriverRoot", "/run/nvidia/driver-of-mine"),
        ("nvidiaDevRoot", VOLUME),
        ("nvidiaDevRoot", "/proc/1/root"),
        ("mpsRoot", VOLUME),
        ("mpsRoot", "/"),
        ("mpsRoot", "/run/nvidia"),
        ("gfd.outputFile", "/var/run/cdi/nvidia.yaml"),
        ("gfd.outputFile", "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"),
        ("gfd.outputFile", "/host/etc/cron.d/labels"),
        ("gfd.machineTypeFile", "/var/run/secrets/kubernetes.io/serviceaccount/token"),
        ("gfd.machineTypeFile", "/driver-root/etc/shadow"),
        ("gfd.machineTypeFile", "/proc/self/environ"),
    ],
)
def test_a_path_that_a_container_may_fill_or_that_gives_something_away_is_refused(
    field: str, path: str
) -> None:
    (problem,) = refused(text(field, path))
    name = field.rpartition(".")[2]
    assert problem.what == f"{name} may not be {path}"
    assert problem.where.startswith("f:1:")
    assert "or give the agent --" in problem.remedy


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("plugin.nvidiaCTKPath", "/usr/bin/nvidia-ctk"),
        ("plugin.nvidiaCTKPath", "/usr/bin/nvidia-cdi-hook"),
        ("plugin.nvidiaCTKPath", "/usr/local/nvidia/toolkit/nvidia-cdi-hook"),
        ("nvidiaDriverRoot", "/"),
        ("nvidiaDriverRoot", "/run/nvidia/driver"),
        ("nvidiaDriverRoot", "/home/kubernetes/bin/nvidia"),
        ("nvidiaDevRoot", "/run/nvidia/driver"),
        ("mpsRoot", "/run/nvidia/mps"),
        ("mpsRoot", "/var/run/nvidia/mps"),
        ("gfd.outputFile", ""),
        ("gfd.outputFile", "/etc/kubernetes/node-feature-discovery/features.d/gfd"),
        ("gfd.machineTypeFile", "/proc/device-tree/model"),
    ],
)
def test_the_places_that_nodes_have_may_be_named(field: str, path: str) -> None:
    parsed(text(field, path))


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "as NVIDIA's"])
def test_the_agents_own_flags_may_name_any_and_win_over_the_text(lenient: bool) -> None:
    own = Override(("flags", "plugin", "nvidiaCTKPath"), "/x/hook", "--nvidia-cdi-hook-path")
    shown_text = text("plugin.nvidiaCTKPath", f"{VOLUME}/nvidia-ctk")
    read = parse_device_plugin_config(shown_text, source="f", overrides=(own,), lenient=lenient)
    assert read.cdi.hook_path == "/x/hook"


def test_a_lenient_reader_refuses_it_too() -> None:
    with pytest.raises(ConfigError, match="nvidiaCTKPath may not be"):
        parse_device_plugin_config(
            text("plugin.nvidiactkpath", f"{VOLUME}/nvidia-ctk"), source="f", lenient=True
        )
