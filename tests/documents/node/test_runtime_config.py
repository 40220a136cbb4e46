"""Configurations of containerd, CRI-O and NVIDIA's toolkit, as packages and tools write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.documents.node.runtime_config import containerd_config, crio_config, imports_of, toolkit_config
from tonnage.model.node.runtime_config import Handler, RuntimeConfig

MAIN = "/etc/containerd/config.toml"
V1 = """\
[plugins.cri]
  [plugins.cri.containerd]
    default_runtime_name = "nvidia"
    [plugins.cri.containerd.runtimes.nvidia.options]
      Runtime = "/usr/bin/nvidia-container-runtime"
"""
V2 = """\
version = 2
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    enable_cdi = true
    [plugins."io.containerd.grpc.v1.cri".containerd]
      default_runtime_name = "runc"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes]
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
          runtime_type = "io.containerd.runc.v2"
          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
            BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
"""
V3 = """\
version = 3
[plugins.'io.containerd.cri.v1.runtime']
  enable_cdi = false
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia-cdi.options]
    BinaryName = '/usr/bin/nvidia-container-runtime.cdi'
[plugins.'io.containerd.nri.v1.nri']
  disable = true
"""


@pytest.mark.parametrize(
    ("text", "version", "default", "cdi", "nri", "handler"),
    [
        (V1, None, "nvidia", None, None, ("nvidia", "/usr/bin/nvidia-container-runtime", 5)),
        (V2, 2, "runc", True, None, ("nvidia", "/usr/local/nvidia/toolkit/nvidia-container-runtime", 11)),
        (V3, 3, "", False, False, ("nvidia-cdi", "/usr/bin/nvidia-container-runtime.cdi", 5)),
    ],
    ids=["version 1", "version 2", "version 3"],
)
def test_every_version_of_containerds_configuration(
    text: str,
    version: int | None,
    default: str,
    cdi: bool | None,
    nri: bool | None,
    handler: tuple[str, str, int],
) -> None:
    config = containerd_config([(MAIN, text)])
    assert (config.version, config.default, config.cdi, config.nri) == (version, default, cdi, nri)
    name, program, line = handler
    assert config.handlers == {name: Handler(name, program, f"{MAIN}:{line}")}
    assert config.handlers[name].is_nvidia
    assert config.problems == ()


def test_what_is_imported_later_counts_and_is_named_as_the_place() -> None:
    drop_in = "/etc/containerd/conf.d/99-nvidia.toml"
    config = containerd_config(
        [(MAIN, V2), (drop_in, V2.replace("= true", "= false").replace('"runc"', '"nvidia"'))]
    )
    assert (config.cdi, config.cdi_where) == (False, f"{drop_in}:4")
    assert (config.default, config.default_where) == ("nvidia", f"{drop_in}:6")


@pytest.mark.parametrize(
    ("later", "replaced"),
    [
        ("version = 2\n", ""),
        ('version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n', "/etc/containerd/conf.d/a.toml"),
        (V2, ""),
    ],
    ids=["speaks of something else", "speaks of the same plugin", "says it again"],
)
def test_a_later_file_that_may_take_the_place_of_the_switch_is_named(later: str, replaced: str) -> None:
    config = containerd_config([(MAIN, V2), ("/etc/containerd/conf.d/a.toml", later)])
    assert (config.cdi, config.cdi_replaced) == (True, replaced)


@pytest.mark.parametrize(
    ("folders", "elsewhere"),
    [
        ('["/etc/cdi", "/var/run/cdi"]', False),
        ('["/run/cdi/"]', False),
        ('["/etc/cdi"]', True),
        ("[]", True),
        ("7", False),
    ],
    ids=["both", "the same by another way", "another alone", "none", "no list"],
)
def test_folders_of_cdi_specs_without_the_one_that_is_written_to_are_named(
    folders: str, elsewhere: bool
) -> None:
    text = f'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  cdi_spec_dirs = {folders}\n'
    assert containerd_config([(MAIN, text)]).cdi_elsewhere == (f"{MAIN}:3" if elsewhere else "")
    crio = f"[crio.runtime]\ncdi_spec_dirs = {folders}\n"
    assert crio_config([("/etc/crio/crio.conf", crio)]).cdi_elsewhere == (
        "/etc/crio/crio.conf:2" if elsewhere else ""
    )


def test_imports_are_told_as_they_stand_there() -> None:
    assert imports_of('imports = ["/etc/containerd/conf.d/*.toml", "x.toml", 3]') == (
        "/etc/containerd/conf.d/*.toml",
        "x.toml",
    )
    assert imports_of("imports = [") == imports_of("") == ()


def test_crio_is_read_with_its_parts() -> None:
    main = '[crio.runtime]\ndefault_runtime = "crun"\n'
    main += '[crio.runtime.runtimes.crun]\nruntime_path = "/usr/bin/crun"\n'
    part = '[crio.runtime.runtimes.nvidia]\nruntime_path = "/usr/bin/nvidia-container-runtime"\n'
    part += "[crio.nri]\nenable_nri = false\n"
    config = crio_config([("/etc/crio/crio.conf", main), ("/etc/crio/crio.conf.d/99-nvidia.conf", part)])
    assert (config.default, config.nri, config.nri_where) == (
        "crun",
        False,
        "/etc/crio/crio.conf.d/99-nvidia.conf:4",
    )
    assert {name: handler.is_nvidia for name, handler in config.handlers.items()} == {
        "crun": False,
        "nvidia": True,
    }


def test_the_toolkits_file_as_its_package_installs_it() -> None:
    text = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false

[nvidia-container-cli]
#debug = "/var/log/nvidia-container-toolkit.log"
environment = []
ldconfig = "@/sbin/ldconfig.real"
load-kmods = true
#no-cgroups = true
#root = "/run/nvidia/driver"

[nvidia-container-runtime]
mode = "auto"
"""
    config = toolkit_config("/c.toml", text)
    assert (config.mode, config.mode_where) == ("auto", "/c.toml:14")
    assert (config.ldconfig, config.ldconfig_where) == ("@/sbin/ldconfig.real", "/c.toml:8")
    assert (config.root, config.no_cgroups, config.unprivileged_variable) == ("", "", None)


@pytest.mark.parametrize(
    "text",
    [
        "plugins = 1",
        "[plugins]\ncri = 1",
        '[plugins.cri.containerd]\nruntimes = ["a"]\ndefault_runtime_name = 1\n',
        "disabled_plugins = 1\nversion = 'x'\nimports = 1\n",
        "[crio]\nruntime = 1\n[nvidia-container-cli]\nldconfig = 1\nno-cgroups = 'true'\n",
        "[[plugins.cri.containerd.runtimes.x]]\n",
    ],
)
def test_values_of_another_kind_say_nothing(text: str) -> None:
    for found in (containerd_config([(MAIN, text)]), crio_config([(MAIN, text)])):
        assert found == RuntimeConfig(found.kind, (MAIN,))
    assert toolkit_config(MAIN, text).no_cgroups == ""


@given(st.text(max_size=300))
def test_any_text_is_a_configuration_or_a_problem_with_its_place(text: str) -> None:
    for found in (containerd_config([(MAIN, text)]), crio_config([(MAIN, text)])):
        assert all(problem.where.startswith(MAIN) for problem in found.problems)
    toolkit_config(MAIN, text)
    imports_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "a.b" * 50_000 + " = 1",
        "x = " + "[" * 90_000,
        " " * 250_000 + "x",
        "x = " + "9" * 200_000,
    ],
)
def test_a_text_made_to_hurt_is_a_problem(text: str) -> None:
    assert len(containerd_config([(MAIN, text)]).problems) <= 1
