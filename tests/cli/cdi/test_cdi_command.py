"""`tonnage cdi`: specs by hand, and whether a runtime takes one."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
import yaml

from support.driver_root import LIBRARIES, make_driver_root
from support.nvml.state import DriverState, FakeGpu
from tonnage.adapters.cdi import files
from tonnage.cli.main import run

TWO = "devices:\n- {uuid: GPU-0, model: T4}\n- {uuid: GPU-1, model: T4}\n"
GOOD = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["A=b"]}}],
}


@pytest.fixture
def devices(tmp_path: Path) -> str:
    """Two pretended GPUs, as an option's value."""
    (tmp_path / "node.yaml").write_text(TWO)
    return f"scenario:{tmp_path}/node.yaml"


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    return make_driver_root(tmp_path / "driver", DriverState((FakeGpu(0, "A100-40"),)))


def test_a_spec_is_printed_without_aliases(
    devices: str, driver: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cdi", "generate", "--devices", devices, "--driver-root", str(driver)], "tonnage") == 0
    said = capsys.readouterr()
    spec = yaml.safe_load(said.out)
    assert [device["name"] for device in spec["devices"]] == [
        "0",
        "1",
        "GPU-0",
        "GPU-1",
        "all",
        "gpu0",
        "gpu1",
    ]
    assert "&id" not in said.out
    assert said.err.startswith("warning: no libcuda.so.1 under")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("a.json", ["--file"], id="json by the file's name"),
        pytest.param("a.yaml", ["--file"], id="yaml by the file's name"),
        pytest.param("a.json", ["--output"], id="as nvidia-ctk names the file"),
        pytest.param("b.yaml", ["-o", "json", "--file"], id="a format and a file"),
        pytest.param("b.yaml", ["--format", "json", "--output"], id="both, as nvidia-ctk names them"),
    ],
)
def test_a_spec_is_written_for_all_to_read_and_is_valid(
    name: str,
    options: list[str],
    devices: str,
    driver: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / name
    words = ["--devices", devices, *options, str(file), "--kind", "acme.com/gpu"]
    roots = ["--driver-root", "/run/nvidia/driver", "--driver-root-ctr-path", str(driver)]
    assert run(["cdi", "generate", *words, *roots], "tonnage") == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    spec = yaml.safe_load(file.read_text())
    assert spec["kind"] == "acme.com/gpu"
    mounts = spec["containerEdits"]["mounts"]
    assert {mount["hostPath"].rpartition("/")[0] for mount in mounts} == {f"/run/nvidia/driver/{LIBRARIES}"}
    assert (file.read_bytes()[:1] == b"{") == (name != "a.yaml")
    assert run(["cdi", "validate", str(file)], "tonnage") == 0
    assert capsys.readouterr().out == f"{file}: valid\n"


def test_channels_that_a_driver_has_are_one_device_each(
    driver: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    channel = driver / "dev/nvidia-caps-imex-channels/channel3"
    channel.parent.mkdir()
    channel.symlink_to("/dev/null")
    words = ["cdi", "generate", "--mode", "imex", "--driver-root", str(driver)]
    assert run(words, "tonnage") == 0
    said = capsys.readouterr()
    spec = yaml.safe_load(said.out)
    assert (spec["kind"], [device["name"] for device in spec["devices"]]) == (
        "nvidia.com/imex-channel",
        ["3", "all"],
    )
    assert said.err == ""
    channel.unlink()
    assert run(words, "tonnage") == 3
    assert "nvidia.com/imex-channel=all would be empty" in capsys.readouterr().err


def test_a_spec_for_management_has_every_node_and_the_drivers_files(
    driver: Path, devices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["cdi", "generate", "--mode", "management", "--driver-root", str(driver)]
    assert run(words, "tonnage") == 0
    spec = yaml.safe_load(capsys.readouterr().out)
    (device,) = spec["devices"]
    assert (spec["kind"], device["name"]) == ("management.nvidia.com/gpu", "all")
    hosts = {node["hostPath"] for node in device["containerEdits"]["deviceNodes"]}
    assert hosts >= {
        f"{driver}/dev/nvidia0",
        f"{driver}/dev/nvidiactl",
        f"{driver}/dev/nvidia-caps/nvidia-cap1",
    }
    assert "libnvidia-ml.so" in str(spec["containerEdits"]["mounts"])
    assert run([*words, "--devices", devices], "tonnage") == 2
    assert "leave --devices out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--device-name-strategy", "index"), {"0", "1", "all"}),
        (("--device-name-strategy=uuid,type-index", "--no-all-device"), {"GPU-0", "GPU-1", "gpu0", "gpu1"}),
        (
            ("--device-name-strategy", "index", "--device-name-strategy", "uuid", "--device-id", "gpu1"),
            {"1", "GPU-1", "all"},
        ),
        (("--mode", "NVML", "--device", "GPU-0,1", "--device-name-strategy", "index"), {"0", "1", "all"}),
    ],
    ids=["one strategy", "two in one value, and not all", "two, and one device", "two devices"],
)
def test_devices_and_names_are_chosen_as_with_nvidias_program(
    words: tuple[str, ...], names: set[str], devices: str, driver: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["cdi", "generate", "--devices", devices, "--driver-root", str(driver)]
    assert run([*base, *words], "tonnage") == 0
    spec = yaml.safe_load(capsys.readouterr().out)
    assert {device["name"] for device in spec["devices"]} == names


def test_vendor_and_class_are_the_kind_and_a_device_that_is_nowhere_is_told(
    devices: str, driver: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["cdi", "generate", "--devices", devices, "--driver-root", str(driver), "--vendor", "acme.com"]
    assert run([*words, "--class", "card", "--device-id", "0", "--device-id", "gpu7"], "tonnage") == 1
    said = capsys.readouterr()
    assert yaml.safe_load(said.out)["kind"] == "acme.com/card"
    assert "no device is named gpu7" in said.err
    assert run([*words, "--kind", "a.b/cd"], "tonnage") == 2
    assert "leave --vendor and --class out" in capsys.readouterr().err


def test_nodes_are_those_of_the_dev_root(
    driver: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    (other / "dev").mkdir(parents=True)
    for name in ("nvidia0", "nvidiactl"):
        (other / "dev" / name).symlink_to("/dev/null")
    words = ["cdi", "generate", "--driver-root", str(driver), "--dev-root", str(other), "--disable-hook=all"]
    assert run(words, "tonnage") == 0
    spec = yaml.safe_load(capsys.readouterr().out)
    (node,) = next(one["containerEdits"]["deviceNodes"] for one in spec["devices"] if one["name"] == "0")
    assert node == {"path": "/dev/nvidia0", "hostPath": f"{other}/dev/nvidia0"}
    assert [node["hostPath"] for node in spec["containerEdits"]["deviceNodes"]] == [f"{other}/dev/nvidiactl"]


def test_hooks_are_of_the_program_that_is_named_on_this_machine(
    devices: str, driver: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "nvidia-cdi-hook"
    program.write_bytes(b"#!\0enable-cuda-compat\0disable-device-node-modification")
    program.chmod(0o755)
    words = ["cdi", "generate", "--devices", devices, "--driver-root", str(driver)]
    words += ["--nvidia-cdi-hook-path", str(program), "--ldconfig-path", "/sbin/ldconfig.real"]

    def hooks(*more: str) -> list[list[str]]:
        assert run([*words, *more], "tonnage") == 0
        edits = yaml.safe_load(capsys.readouterr().out)["containerEdits"]
        return [hook["args"][1:] for hook in edits.get("hooks", ())]

    assert [hook[0] for hook in hooks()] == [
        *("create-symlinks", "enable-cuda-compat", "update-ldcache", "disable-device-node-modification")
    ]
    only = hooks("--disable-hook", "all", "--enable-hook", "update-ldcache")
    assert only == [["update-ldcache", "--ldconfig-path", "/sbin/ldconfig.real", "--folder", f"/{LIBRARIES}"]]
    program.unlink()
    assert run(words, "tonnage") == 0
    said = capsys.readouterr()
    assert "hooks" not in yaml.safe_load(said.out)["containerEdits"]
    assert f"no program {program}" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--device-name-strategy", "indices"), "use index if you meant that"),
        (("--enable-hook", "chmod"), "'chmod' is not known"),
        (("--feature-flag", "disable-ipc"), "use disable-ipc-discoverer if you meant that"),
        (("--mode", "imex", "--device-id", "0"), "leave --device-id out"),
        (("--mode", "csv"), "'csv' is not one of"),
    ],
)
def test_what_is_not_known_or_not_meant_here_is_refused(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cdi", "generate", *words], "tonnage") == 2
    assert said in capsys.readouterr().err


def test_a_hook_that_nobody_knows_is_refused(devices: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cdi", "generate", "--devices", devices, "--disable-hook"]
    assert run([*words, "create-symlink"], "tonnage") == 2
    assert "create-symlinks" in capsys.readouterr().err
    assert run([*words, "all"], "tonnage") == 0


def test_a_kind_that_no_runtime_takes_is_refused(
    devices: str, driver: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--devices", devices, "--driver-root", str(driver), "--kind", "gpu"]
    assert run(["cdi", "generate", *words], "tonnage") == 2
    assert 'invalid vendor/class "gpu" in Spec' in capsys.readouterr().err


def test_a_device_that_is_left_out_is_told_by_the_status(
    tmp_path: Path, driver: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "node.yaml").write_text(TWO.replace("GPU-1", "GPU-1_"))
    words = ["--devices", f"scenario:{tmp_path}/node.yaml", "--driver-root", str(driver)]
    assert run(["cdi", "generate", *words], "tonnage") == 1
    said = capsys.readouterr()
    assert "GPU-1_ is left out of the CDI spec" in said.err
    assert "GPU-0" in said.out


def test_every_problem_of_every_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, broken = (tmp_path / name for name in ("good.json", "bad.json", "broken.yaml"))
    good.write_text(json.dumps(GOOD))
    bad.write_text(json.dumps({**GOOD, "cdiVersion": "0.3.0", "kind": "nvidia.com/?u"}))
    broken.write_text("{")
    assert run(["cdi", "validate", *map(str, (good, bad, broken))], "tonnage") == 1
    said = capsys.readouterr()
    assert said.out == f"{good}: valid\n"
    assert f"where: {bad}:1:2 cdiVersion" in said.err
    assert f"where: {bad}:1:25 kind" in said.err
    assert "failed to parse CDI Spec" in said.err
    assert run(["cdi", "validate", "-o", "json", str(good), str(bad)], "tonnage") == 1
    answers = json.loads(capsys.readouterr().out)["items"]
    assert [answer["valid"] for answer in answers] == [True, False]
    assert [problem["where"] for problem in answers[1]["problems"]] == [
        f"{bad}:1:2 cdiVersion",
        f"{bad}:1:25 kind",
    ]


def test_a_file_that_runtimes_overlook_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.yml").write_text(json.dumps(GOOD))
    assert run(["cdi", "validate", str(tmp_path / "spec.yml")], "tonnage") == 1
    assert "ends in .json or .yaml" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cdi", "validate", str(tmp_path / "no.json")], "tonnage") == 2
    assert "file not found" in capsys.readouterr().err


_TOO_MANY = "more than 200,000 values, where an alias counts as all that it stands for, such as *a5 here"


def test_a_folder_is_read_as_runtimes_read_it_and_every_place_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broken, doubled and hostile specs: what is well stays valid, nothing is waited for."""
    folder = tmp_path / "cdi"
    (folder / "below.json").mkdir(parents=True)
    (folder / "below.json/inner.json").write_text("{")
    (folder / "notes.txt").write_text("{")
    (folder / "1-good.json").write_text(json.dumps({**GOOD, "kind": "acme.com/good"}))
    (folder / "2-twice.json").write_text(json.dumps(GOOD))
    (folder / "3-twice.yaml").write_text("---\n" + yaml.safe_dump(GOOD))
    (folder / "4-loop.json").symlink_to("4-loop.json")
    (folder / "5-nowhere.json").symlink_to("/nowhere/at/all")
    os.mkfifo(folder / "6-pipe.json")
    (folder / "7-key.json").write_text('{"cdiVersion": "0.5.0",\n "kind": "a.b/cd", "kind": "a.b/ce"}')
    (folder / "8-bomb.yaml").write_text(
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    )
    (folder / "9-empty.yaml").touch()
    assert run(["cdi", "validate", "-o", "json", str(folder)], "tonnage") == 1
    answers = json.loads(capsys.readouterr().out)["items"]
    said = {
        Path(answer["file"]).name: [(each["what"], each["where"]) for each in answer["problems"]]
        for answer in answers
    }
    two, three = folder / "2-twice.json", folder / "3-twice.yaml"
    twice = 'conflicting device "nvidia.com/gpu=0" (specs'
    assert said == {
        "1-good.json": [],
        "2-twice.json": [(f'{twice} "{two}", "{three}")', f"{two} devices[0].name")],
        "3-twice.yaml": [(f'{twice} "{three}", "{two}")', f"{three} devices[0].name")],
        "4-loop.json": [("4-loop.json cannot be read", f"{folder}/4-loop.json")],
        "5-nowhere.json": [("the link is broken", f"{folder}/5-nowhere.json")],
        "6-pipe.json": [("6-pipe.json is not a CDI spec", f"{folder}/6-pipe.json")],
        "7-key.json": [
            ("failed to parse CDI Spec: duplicate key", f"{folder}/7-key.json:2:20 kind"),
        ],
        "8-bomb.yaml": [
            (f"failed to parse CDI Spec: {_TOO_MANY}", f"{folder}/8-bomb.yaml:7:10"),
        ],
        "9-empty.yaml": [("failed to parse CDI Spec, no Spec data", f"{folder}/9-empty.yaml")],
    }


def test_the_specs_of_a_later_folder_are_no_conflict(tmp_path: Path) -> None:
    for name in ("etc", "run"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps(GOOD))
    assert run(["cdi", "validate", str(tmp_path / "etc"), str(tmp_path / "run")], "tonnage") == 0
    assert (
        run(["cdi", "validate", *(str(tmp_path / name / "a.json") for name in ("etc", "run"))], "tonnage")
        == 0
    )


def test_a_path_that_leads_elsewhere_than_it_looks_is_taken_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edits = {
        "deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/../etc/shadow"}],
        "mounts": [{"hostPath": "etc", "containerPath": "/x"}],
    }
    (tmp_path / "a.json").write_text(json.dumps({**GOOD, "containerEdits": edits}))
    assert run(["cdi", "validate", str(tmp_path)], "tonnage") == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path}/a.json: valid\n"
    warnings = said.err.splitlines()
    assert len(warnings) == 2
    assert "containerEdits.deviceNodes[0].hostPath: odd path" in warnings[0]
    assert "containerEdits.mounts[0].hostPath: odd path" in warnings[1]
    assert "does not begin with /" in warnings[1]


def test_of_a_folder_with_very_many_names_it_is_said_how_many_were_not_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOST_NAMES", 20)
    for number in range(30):
        (tmp_path / f"{number}.json").write_text(json.dumps({**GOOD, "kind": f"a.b/k{number}"}))
    assert run(["cdi", "validate", "-o", "json", str(tmp_path)], "tonnage") == 1
    *read, rest = json.loads(capsys.readouterr().out)["items"]
    assert len(read) == 20
    assert all(answer["valid"] for answer in read)
    assert "10 of them were not read" in rest["problems"][0]["why"]


def test_a_file_that_cannot_be_read_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text(json.dumps({**GOOD, "kind": "gpu"}))
    assert run(["cdi", "validate", str(tmp_path / "no.json"), str(tmp_path / "bad.json")], "tonnage") == 2
    said = capsys.readouterr().err
    assert "file not found" in said
    assert 'invalid vendor/class "gpu" in Spec' in said


def test_what_runtimes_forgive_is_valid_and_what_they_overlook_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number for a name, a field in capitals; a second document."""
    plain = "CDIVersion: 0.5.0\nkind: a.b/cd\ndevices:\n- {name: 0, containerEdits: {env: [A=b]}}\n"
    (tmp_path / "a.yaml").write_text(f"{plain}---\n{plain}")
    assert run(["cdi", "validate", str(tmp_path)], "tonnage") == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path}/a.yaml: valid\n"
    assert f"{tmp_path}/a.yaml:6:1: more than one document" in said.err
    (tmp_path / "b.yaml").write_text(plain)
    assert run(["cdi", "validate", str(tmp_path)], "tonnage") == 1
    assert 'conflicting device "a.b/cd=0"' in capsys.readouterr().err
