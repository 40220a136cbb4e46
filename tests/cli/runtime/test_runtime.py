"""`tonnage runtime` as a person runs it: the diff, the files, the JSON and the exit status."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tonnage.adapters.systemd_units import restart_unit
from tonnage.cli.main import run
from tonnage.model.errors import HardwareError

MAIN = "etc/containerd/config.toml"
OFF = '# mine\nversion = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "pause"'
CONTAINERD_17 = ("--runtime", "containerd://1.7.24")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, MAIN, OFF)
    return tmp_path


def put(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def runtime(root: Path, verb: str, *words: str) -> int:
    return run(["runtime", verb, "--root", str(root), *words], "tonnage")


def answer(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_the_plan_is_a_diff_and_changes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runtime(root, "plan", *CONTAINERD_17) == 1
    said = capsys.readouterr().out
    assert said.startswith("containerd 1.7.24: CDI is off by default\n--- /etc/containerd/config.toml\n+++ ")
    assert "\n+enable_cdi = true\n" in said
    assert "\nNothing is written yet; once it is: systemctl restart containerd  (containers keep " in said
    assert (root / MAIN).read_bytes() == OFF.encode()


def test_apply_undo_and_apply_twice(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / MAIN).chmod(0o640)
    assert runtime(root, "apply", *CONTAINERD_17, "--dry-run") == 1
    assert (root / MAIN).read_text() == OFF
    assert runtime(root, "apply", *CONTAINERD_17) == 0
    changed = (root / MAIN).read_bytes()
    assert changed != OFF.encode()
    capsys.readouterr()
    assert runtime(root, "apply", *CONTAINERD_17) == 0
    assert capsys.readouterr().out == (
        "containerd 1.7.24 has CDI: enable_cdi = true in /etc/containerd/config.toml\n"
    )
    assert (root / MAIN).read_bytes() == changed
    assert runtime(root, "undo", *CONTAINERD_17, "--dry-run") == 1
    assert (root / MAIN).read_bytes() == changed
    capsys.readouterr()
    assert runtime(root, "undo", *CONTAINERD_17) == 0
    assert "\nChanged /etc/containerd/config.toml.\nTo put the change in force: " in capsys.readouterr().out
    assert (root / MAIN).read_bytes() == OFF.encode()
    assert stat.S_IMODE((root / MAIN).stat().st_mode) == 0o640
    assert [file.name for file in (root / MAIN).parent.iterdir()] == ["config.toml"]


def test_a_file_that_was_not_there_is_made_and_goes_again(tmp_path: Path) -> None:
    put(tmp_path, "etc/containerd/other", "")
    assert runtime(tmp_path, "apply", *CONTAINERD_17) == 0
    assert stat.S_IMODE((tmp_path / MAIN).stat().st_mode) == 0o644
    assert runtime(tmp_path, "undo", *CONTAINERD_17) == 0
    assert not (tmp_path / MAIN).exists()


def test_a_runtime_that_has_cdi_is_left_alone(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runtime(root, "plan", "--runtime", "containerd://2.2.9", "-o", "json") == 0
    found = answer(capsys)
    assert (found["standing"], found["edits"], found["restart"]) == ("nothing", [], "")
    assert (found["cdi"]["state"], found["nri"]["state"]) == ("on", "on")
    assert found["runtime"]["files"] == ["/etc/containerd/config.toml"]


def test_scripts_get_every_edit(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runtime(root, "plan", *CONTAINERD_17, "-o", "json") == 1
    found = answer(capsys)
    assert set(found) == {
        "runtime",
        "standing",
        "message",
        "edits",
        "restart",
        "restarted",
        "problems",
        "cdi",
        "nri",
    }
    assert [(edit["path"], edit["action"]) for edit in found["edits"]] == [("/" + MAIN, "edit")]
    assert found["restart"] == "systemctl restart containerd"
    assert found["runtime"]["toldBy"] == "--runtime"


def test_the_version_is_taken_from_the_package_where_nobody_answers(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(
        root,
        "var/lib/dpkg/status",
        "Package: containerd\nStatus: install ok installed\nVersion: 1.7.24~ds1-6\n\n",
    )
    assert runtime(root, "plan", "-o", "json") == 1
    found = answer(capsys)["runtime"]
    assert (found["version"], found["toldBy"]) == ("1.7.24~ds1-6", "package containerd")


def test_without_a_version_nothing_is_guessed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runtime(root, "apply") == 1
    said = capsys.readouterr().err
    assert "Tonnage does not know this container runtime: containerd" in said
    assert "remedy: name it as its Node does: --runtime containerd://2.1.4" in said
    assert (root / MAIN).read_text() == OFF


def test_k3s_gets_its_drop_in_and_its_units_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = "var/lib/rancher/k3s/agent/etc/containerd"
    put(tmp_path, "etc/systemd/system/k3s-agent.service", "")
    put(
        tmp_path,
        f"{folder}/config.toml",
        "# File generated by k3s. DO NOT EDIT. Use config-v3.toml.tmpl instead.\nversion = 3\n"
        f'imports = ["/{folder}/config-v3.toml.d/*.toml"]\n'
        "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n",
    )
    words = ("--runtime", "containerd://2.1.4-k3s1", "-o", "json")
    assert runtime(tmp_path, "apply", *words) == 0
    found = answer(capsys)
    assert found["restart"] == "systemctl restart k3s-agent"
    assert [edit["action"] for edit in found["edits"]] == ["create"]
    assert (tmp_path / folder / "config-v3.toml.d/99-tonnage.toml").is_file()
    assert runtime(tmp_path, "plan", *words) == 0
    assert runtime(tmp_path, "undo", *words) == 0
    assert [file.name for file in (tmp_path / folder).iterdir()] == ["config.toml"]


def test_rke2_gets_a_template_where_it_imports_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = "var/lib/rancher/rke2/agent/etc/containerd"
    main = "# File generated by rke2. DO NOT EDIT. Use config.toml.tmpl instead.\nversion = 2\n"
    put(tmp_path, f"{folder}/config.toml", main)
    put(tmp_path, "opt/bin/nvidia-container-runtime", "")
    assert (
        runtime(tmp_path, "apply", *CONTAINERD_17, "--nvidia-runtime", "/opt/bin/nvidia-container-runtime")
        == 0
    )
    template = tmp_path / folder / "config.toml.tmpl"
    assert template.read_text().startswith('{{ template "base" . }}\n# >>> tonnage ')
    capsys.readouterr()
    assert (
        runtime(tmp_path, "plan", *CONTAINERD_17, "--nvidia-runtime", "/opt/bin/nvidia-container-runtime")
        == 1
    )
    assert "remedy: restart rke2" in capsys.readouterr().err
    assert runtime(tmp_path, "undo", *CONTAINERD_17) == 0
    assert [file.name for file in (tmp_path / folder).iterdir()] == ["config.toml"]
    assert (tmp_path / folder / "config.toml").read_text() == main


def test_of_several_places_a_person_says_which(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rke2 = "var/lib/rancher/rke2/agent/etc/containerd/config.toml"
    put(root, rke2, "version = 3\n")
    assert runtime(root, "plan", "--runtime", "containerd://2.1.4") == 1
    assert "remedy: name its main file: --config /etc/containerd/config.toml" in capsys.readouterr().err
    assert runtime(root, "plan", "--runtime", "containerd://2.1.4", "--config", f"/{rke2}", "-o", "json") == 0
    assert answer(capsys)["runtime"]["files"] == [f"/{rke2}"]


def test_broken_toml_is_told_with_line_and_column(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(root, MAIN, "version = 2\n[plugins\n")
    assert runtime(root, "apply", *CONTAINERD_17) == 1
    assert "where: /etc/containerd/config.toml:2:9\n" in capsys.readouterr().err


def test_a_link_is_not_written_through(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = put(root, "store/config.toml", OFF)
    (root / MAIN).unlink()
    (root / MAIN).symlink_to("/store/config.toml")
    assert runtime(root, "apply", *CONTAINERD_17) == 1
    assert "is a symbolic link to /store/config.toml" in capsys.readouterr().err
    assert real.read_text() == OFF
    assert (root / MAIN).is_symlink()


def test_what_somebody_changed_since_stays(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtime(root, "apply", *CONTAINERD_17)
    text = (root / MAIN).read_text()
    put(root, MAIN, f"{text}\n[debug]\n")
    assert runtime(root, "undo", *CONTAINERD_17) == 0
    assert (root / MAIN).read_text() == f"{OFF}\n[debug]\n"
    put(root, MAIN, text.replace("enable_cdi = true", "enable_cdi = true # ours"))
    assert runtime(root, "undo", *CONTAINERD_17) == 1
    assert "what Tonnage wrote there has been changed since" in capsys.readouterr().err
    assert "# ours" in (root / MAIN).read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--root", "/no-such-root"), "folder not found: /no-such-root"),
        (("--config", "config.toml"), "config.toml is not an absolute path"),
    ],
)
def test_wrong_words(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runtime", "plan", *words], "tonnage") == 2
    assert said in capsys.readouterr().err


def test_a_handler_for_nvidias_runtime_that_is_found(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (*CONTAINERD_17, "--nvidia-runtime")
    assert runtime(root, "apply", *words) == 2
    assert "nvidia-container-runtime not found" in capsys.readouterr().err
    put(root, "usr/bin/nvidia-container-runtime", "#!")
    assert runtime(root, "apply", *words) == 0
    assert 'BinaryName = "/usr/bin/nvidia-container-runtime"' in (root / MAIN).read_text()
    assert runtime(root, "plan", *words) == 0
    assert runtime(root, "plan", *words[:2], "--nvidia-runtime", "/opt/gone") == 2
    assert "program not found: /opt/gone" in capsys.readouterr().err
    assert runtime(root, "undo", *CONTAINERD_17) == 0
    assert (root / MAIN).read_text() == OFF


def test_crios_drop_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "usr/bin/nvidia-container-runtime", "#!")
    words = ("--runtime", "cri-o://1.34.2")
    assert runtime(tmp_path, "apply", *words, "--nvidia-runtime") == 0
    part = tmp_path / "etc/crio/crio.conf.d/99-tonnage.conf"
    assert part.is_file()
    capsys.readouterr()
    assert runtime(tmp_path, "plan", *words, "-o", "json") == 0
    assert answer(capsys)["runtime"]["files"] == ["/etc/crio/crio.conf.d/99-tonnage.conf"]
    assert runtime(tmp_path, "undo", *words) == 0
    assert not part.parent.exists(), "apply made the folder"
    assert runtime(tmp_path, "apply", *words, "--nvidia-runtime") == 0
    put(tmp_path, "etc/crio/crio.conf.d/10-other.conf", "")
    assert runtime(tmp_path, "undo", *words) == 0
    assert [file.name for file in part.parent.iterdir()] == ["10-other.conf"]


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that notes what it is asked, and fails for crio; the path of its notes."""
    notes = tmp_path / "notes"
    script = put(tmp_path, "bin/systemctl", f'#!/bin/sh\necho "$@" >> {notes}\necho no >&2; [ $2 != crio ]\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    return notes


def test_the_runtime_is_restarted_after_a_change_when_asked(
    root: Path, systemctl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--config", str(root / MAIN), *CONTAINERD_17)
    assert runtime(Path("/"), "apply", *words, "--restart", "--dry-run") == 1
    assert not systemctl.exists()
    assert runtime(Path("/"), "apply", *words, "--restart") == 0
    assert systemctl.read_text() == "restart containerd\n"
    assert "Restarted containerd: the change is in force.\n" in capsys.readouterr().out
    assert runtime(Path("/"), "apply", *words, "--restart", "-o", "json") == 0
    assert answer(capsys)["restarted"] is False
    assert runtime(Path("/"), "undo", *words, "--restart", "-o", "json") == 0
    assert answer(capsys)["restarted"] is True
    assert systemctl.read_text() == "restart containerd\n" * 2


def test_a_restart_that_fails_or_cannot_be_is_told(
    root: Path, systemctl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runtime(root, "apply", *CONTAINERD_17, "--restart") == 2
    assert "--restart is for --root /" in capsys.readouterr().err
    with pytest.raises(
        HardwareError, match=r"systemctl restart crio failed\n  why: no\n  remedy: journalctl"
    ):
        restart_unit("crio")
    (systemctl.parent / "bin/systemctl").unlink()
    with pytest.raises(HardwareError, match="systemctl restart containerd cannot be run"):
        restart_unit("containerd")


def test_run_3_nri_is_refused_by_version_and_told_who_asks(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, "etc/nri/conf.d/10-nvidia-toolkit.conf", "")
    assert runtime(root, "nri", *CONTAINERD_17) == 1
    said = capsys.readouterr()
    assert "error: containerd 1.7.24 does not support NVIDIA's NRI plugin\n" in said.err
    assert "Enabled by /etc/nri/conf.d/10-nvidia-toolkit.conf.\n" in said.out
    assert "admissionPolicy.deviceAnnotationNamespaces" in said.out
    assert runtime(root, "nri", "--runtime", "containerd://2.2.9", "-o", "json") == 0
    found = answer(capsys)
    assert (found["works"], found["problems"]) == (True, [])
    assert found["askedForBy"] == ["/etc/nri/conf.d/10-nvidia-toolkit.conf"]
    assert runtime(root, "nri", "--runtime", "containerd://1.6.20") == 1
    said = capsys.readouterr()
    assert "CDI a container" not in said.out
    assert "by variables for NVIDIA's toolkit" in said.out
