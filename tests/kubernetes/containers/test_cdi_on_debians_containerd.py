"""CDI on the containerd of Debian's package: 1.7, where it is off until `tonnage runtime` switches it on."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest

from support.container_runtimes import DEBIANS_CONFIG, Runtimes, debians_containerd, numbers
from support.driver_root import LIBRARIES
from support.genuine_node import until
from support.images import kept_containerd
from support.installed_agent import CONTROL
from support.nvml.library import SONAME
from tonnage.cli.cdi.validate import check_specs
from tonnage.cli.main import run
from tonnage.decide.node.cdi.spec import spec_bytes

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

KIND: Final = "nvidia.com/gpu"
CONFIG: Final = "/etc/containerd.toml"
PLUGIN: Final = "io.containerd.grpc.v1.cri"
LIBRARY: Final = f"/{LIBRARIES}/{SONAME}"
LOOK: Final = f"""
for node in /dev/nvidia* /dev/nvidia-caps/*; do [ -c $node ] && stat -c '%n %t %T' $node; done
echo "visible $NVIDIA_VISIBLE_DEVICES"
[ -e {LIBRARY} ] && echo "library $(wc -c <{LIBRARY})"
(: >> {LIBRARY}) 2>&1 | sed 's/.*: //'
"""
WAYS: Final = ("containerd", "annotations")


@dataclass(frozen=True, slots=True)
class Switched:
    """With CDI switched on; what was `without` it, and what the command `said` of that."""

    runtimes: Runtimes
    without: str
    said: Any


@pytest.fixture(scope="module")
def switched() -> Iterator[Switched]:
    """As the how-to has it: a plan, the change, a restart."""
    seen: list[Any] = []
    command = [str(kept_containerd()["containerd"]), "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout.strip()
    if " 1.7." not in version:
        pytest.skip(f"this machine's package sources have no containerd 1.7, but {version}")

    def switch_on(off: Runtimes) -> None:
        spec = off.spec(KIND)
        assert spec.document is not None
        (off.etc / "nvidia.com-gpu.json").write_bytes(spec_bytes(spec.document))
        seen.append(off.said_in("containerd", LOOK, f"{KIND}=0"))
        seen.append(runtime(off, "apply"))

    with debians_containerd(switch_on) as runtimes:
        until(lambda: runtimes.refusal("containerd", f"{KIND}=0") == "")
        yield Switched(runtimes, *seen)


def runtime(runtimes: Runtimes, verb: str) -> Any:
    """What `tonnage runtime` says of the node."""
    told = StringIO()
    with redirect_stdout(told):
        run(
            ["runtime", verb, "--root", f"/proc/{runtimes.node.pid('containerd')}/root", "-o", "json"],
            "tonnage",
        )
    return json.loads(told.getvalue())


def test_without_cdi_a_container_lacks_its_gpu_and_nobody_says_so(switched: Switched) -> None:
    """Why nothing that may not have CDI is told devices by it."""
    assert switched.without.splitlines() == ["visible ", "nonexistent directory"]
    assert switched.said["runtime"]["version"].startswith("1.7.")
    assert switched.said["runtime"]["toldBy"] == "the runtime itself"
    assert switched.said["message"].endswith("CDI is off by default")
    assert runtime(switched.runtimes, "plan")["standing"] == "nothing"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("devices", "own"),
    [
        (("0",), ("nvidia0",)),
        (("mig1:1",), ("nvidia1", "nvidia-caps/nvidia-cap5", "nvidia-caps/nvidia-cap6")),
    ],
    ids=["a whole GPU", "a MIG device"],
)
def test_a_container_gets_just_the_device_that_is_named(
    way: str, devices: tuple[str, ...], own: tuple[str, ...], switched: Switched
) -> None:
    """RUN-4, by kubelet's field and by annotations."""
    driver = switched.runtimes.driver.root
    said = switched.runtimes.said_in(way, LOOK, *(f"{KIND}={device}" for device in devices)).splitlines()
    nodes = [line.split() for line in said if line.startswith("/dev/")]
    assert {path: (int(major, 16), int(minor, 16)) for path, major, minor in nodes} == numbers(
        [*CONTROL, *own]
    )
    assert said[len(nodes) :] == [
        "visible void",
        f"library {(driver / LIBRARIES / SONAME).stat().st_size}",
        "Read-only file system",
    ]


def device(name: object = "0", **edits: object) -> dict[str, Any]:
    return {"cdiVersion": "0.5.0", "devices": [{"name": name, "containerEdits": edits or {"env": ["A=b"]}}]}


SPECS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "good": (device(), ""),
    "old": ({**device(), "cdiVersion": "0.3.0"}, "unresolvable CDI devices"),
    "field": ({**device(), "device": []}, "unresolvable CDI devices"),
    "name": (device("0_"), "unresolvable CDI devices"),
    "empty": (device(env=[]), "unresolvable CDI devices"),
    "six": ({**device(), "cdiVersion": "0.6.0"}, ""),
    "eight": ({**device(), "cdiVersion": "0.8.0"}, ""),
    "one": ({**device(), "cdiVersion": "1.0.0"}, "unresolvable CDI devices"),
    "node": (device(deviceNodes=[{"path": "/dev/not-there"}]), "failed to stat CDI host device"),
    "mount": (device(mounts=[{"hostPath": "/not/there", "containerPath": "/mnt"}]), "/not/there"),
    "hook": (device(hooks=[{"hookName": "createContainer", "path": "/not/there"}]), "/not/there"),
}
"""By name: a spec, and what a container with its device meets."""


def test_specs_are_refused_for_what_we_say_of_them(switched: Switched, tmp_path: Path) -> None:
    """What a spec names and the host lacks is the runtime's to find: those are valid, and start nothing."""
    runtimes = switched.runtimes
    for name, (document, _) in SPECS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({**document, "kind": f"k-{name}.test/gpu"}))
    files = sorted(tmp_path.iterdir(), key=lambda file: file.stem == "good")  # last: it is waited for
    laid = [Path(shutil.copy(file, runtimes.etc)) for file in files]
    try:
        until(lambda: runtimes.refusal("containerd", "k-good.test/gpu=0") == "")
        told = {name: runtimes.refusal("containerd", f"k-{name}.test/gpu={_name(name)}") for name in SPECS}
        met = {
            name: words if words and words in told[name] else told[name] for name, (_, words) in SPECS.items()
        }
        assert met == {name: words for name, (_, words) in SPECS.items()}
        ours = {Path(each.path).stem: each for each in check_specs([runtimes.etc])}
        refused = {name for name, (_, words) in SPECS.items() if "unresolvable" in words}
        assert {name for name in SPECS if ours[name].problems} == refused - {"one"}
        (remark,) = ours["one"].remarks
        assert "containerd 1.7.24" in remark.why
    finally:
        for file in laid:
            file.unlink()


def _name(spec: str) -> str:
    return str(SPECS[spec][0]["devices"][0]["name"])


def test_a_drop_in_takes_the_place_of_all_that_the_main_file_says(switched: Switched) -> None:
    """Why the change is a block in the main file, and k3s' containerd 1.7 gets none; undo is exact."""
    node = switched.runtimes.node
    main = node.root.at(CONFIG)
    given = main.read_text()
    block = dumped(switched)
    assert (block["enable_cdi"], block["restrict_oom_score_adj"]) == (True, True)
    try:
        main.write_text(f'imports = ["/etc/parts/*.toml"]\n{given}')
        part = node.root.at("/etc/parts/a.toml")
        part.parent.mkdir()
        part.write_text(f'version = 2\n[plugins."{PLUGIN}"]\nenable_cdi = true\n')
        assert dumped(switched)["restrict_oom_score_adj"] is False
    finally:
        main.write_text(given)
    assert runtime(switched.runtimes, "undo")["standing"] == "change"
    try:
        assert dumped(switched)["enable_cdi"] is False
        assert main.read_text() == DEBIANS_CONFIG
    finally:
        main.write_text(given)


def dumped(switched: Switched) -> Any:
    """What containerd makes of its files."""
    said = switched.runtimes.node.run("containerd", "--config", CONFIG, "config", "dump").stdout.decode()
    return tomllib.loads(said)["plugins"][PLUGIN]
