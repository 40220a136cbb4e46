"""CDI specs in genuine hands: podman, and containerd over CRI, with no kubelet and no agent between.

What a container gets of a spec that we made, and that we say of any spec what these runtimes say.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from scripts.go_modules import CDI_HOOK, cdi_hook_module
from support.container_runtimes import Runtimes, container_runtimes, numbers
from support.driver_root import LIBRARIES
from support.genuine_node import until
from support.installed_agent import CONTROL, DRIVER_ROOT, MAJOR
from support.nvml.library import SONAME
from tonnage.cli.cdi.validate import check_specs
from tonnage.cli.locations.binaries import FOLDER_VARIABLE
from tonnage.decide.node.cdi.spec import spec_bytes
from tonnage.model.devices.cdi import LATER_HOOKS, CdiSpec

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

KIND: Final = "nvidia.com/gpu"
LIBRARY: Final = f"/{LIBRARIES}/{SONAME}"
LOOK: Final = f"""
for node in /dev/nvidia* /dev/nvidia-caps/*; do [ -c $node ] && stat -c 'node %n %t %T' $node; done
echo "visible $NVIDIA_VISIBLE_DEVICES"
echo "libraries $LD_LIBRARY_PATH"
wc -c {LIBRARY} 2>&1
(: >> {LIBRARY}) 2>&1 | sed 's/.*: /write /'
for minor in 0 1; do
    mknod /tmp/$minor c {MAJOR} $minor
    cat /tmp/$minor 2>&1 | sed "s/.*: /open $minor /"
    rm /tmp/$minor
done
"""
HOOK: Final = cdi_hook_module(os.environ).target / CDI_HOOK
WAYS: Final = ("podman", "containerd", "annotations")


@pytest.fixture(scope="module")
def runtimes() -> Iterator[Runtimes]:
    with container_runtimes() as runtimes:
        yield runtimes


@pytest.fixture(scope="module")
def spec(runtimes: Runtimes) -> Iterator[CdiSpec]:
    """Of all devices, where the runtimes find it."""
    made = runtimes.spec(KIND)
    assert made.document is not None
    file = runtimes.etc / "nvidia.com-gpu.json"
    file.write_bytes(spec_bytes(made.document))
    until(lambda: runtimes.refusal("containerd", f"{KIND}=0") == "")
    yield made
    file.unlink()


@dataclass(frozen=True, slots=True)
class Seen:
    """From inside a container."""

    nodes: dict[str, tuple[int, int]]
    opened: dict[int, str]
    others: Sequence[str]


def look(runtimes: Runtimes, way: str, *devices: str) -> Seen:
    nodes, opened, others = {}, {}, []
    for line in runtimes.said_in(way, LOOK, *devices).splitlines():
        match line.split(" "):
            case ["node", path, major, minor]:
                nodes[path] = (int(major, 16), int(minor, 16))
            case ["open", minor, *words]:
                opened[int(minor)] = " ".join(words)
            case _:
                others.append(line)
    return Seen(nodes, opened, others)


PART: Final = ("nvidia1", "nvidia-caps/nvidia-cap3", "nvidia-caps/nvidia-cap4")
OTHER: Final = ("nvidia1", "nvidia-caps/nvidia-cap5", "nvidia-caps/nvidia-cap6")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("devices", "own"),
    [
        (("0",), ("nvidia0",)),
        (("gpu0",), ("nvidia0",)),
        (("1:0",), PART),
        (("mig1:1",), OTHER),
        (("0", "1:1"), ("nvidia0", *OTHER)),
        (("all",), ("nvidia0", *PART, *OTHER)),
    ],
    ids=["by index", "by type and index", "a MIG device", "another MIG device", "both sorts", "all"],
)
def test_a_container_gets_just_the_devices_that_are_named(
    way: str, devices: Sequence[str], own: Sequence[str], runtimes: Runtimes, spec: CdiSpec
) -> None:
    """RUN-4: an image without any driver sees the GPU, and no other."""
    seen = look(runtimes, way, *(f"{KIND}={device}" for device in devices))
    assert seen.nodes == numbers([*CONTROL, *own])
    allowed = {int(name[-1]) for name in own if name in ("nvidia0", "nvidia1")}
    told = {True: "No such device or address", False: "Operation not permitted"}
    assert seen.opened == {minor: told[minor in allowed] for minor in (0, 1)}
    size = (runtimes.driver.root / LIBRARIES / SONAME).stat().st_size
    assert set(seen.others) == {
        "visible void",
        f"libraries /{LIBRARIES}",
        f"{size} {LIBRARY}",
        "write Read-only file system",
    }


def test_devices_are_there_by_uuid_too(runtimes: Runtimes, spec: CdiSpec) -> None:
    uuids = sorted(name for name in spec.names if name.startswith(("GPU-", "MIG-")))
    assert len(uuids) == 3
    for uuid in uuids:
        assert "visible void" in look(runtimes, "containerd", f"{KIND}={uuid}").others


@pytest.mark.parametrize("way", WAYS)
def test_a_device_that_no_spec_has_is_unresolvable(way: str, runtimes: Runtimes, spec: CdiSpec) -> None:
    """RUN-1, in the words that `explain` and `doctor` know."""
    refusal = runtimes.refusal(way, f"{KIND}=0", f"{KIND}=9")
    assert "unresolvable CDI devices " in refusal
    assert f"{KIND}=9" in refusal


@pytest.mark.parametrize("way", WAYS)
def test_a_stale_spec_is_refused_and_one_made_anew_lacks_what_is_gone_alone(
    way: str, runtimes: Runtimes
) -> None:
    stale = runtimes.spec(f"{way}.test/gpu")
    node = runtimes.driver.root / "dev/nvidia0"
    hidden = node.rename(node.with_name("hidden"))
    file = runtimes.etc / "stale.json"
    try:
        assert stale.document is not None
        file.write_bytes(spec_bytes(stale.document))
        until(lambda: f"{DRIVER_ROOT}/dev/nvidia0" in runtimes.refusal(way, f"{stale.kind}=0"))
        assert runtimes.refusal(way, f"{stale.kind}=1:0") == ""
        anew = runtimes.spec(stale.kind)
        assert [problem.why for problem in anew.left_out] == ["/dev/nvidia0 is missing"]
        assert {"1:0", "1:1", "all"} < anew.names
    finally:
        hidden.rename(node)
        file.unlink(missing_ok=True)


@pytest.mark.parametrize("way", ["podman", "containerd"])
def test_where_there_is_a_program_for_hooks_it_is_run_and_makes_the_links(
    way: str, runtimes: Runtimes
) -> None:
    """One that notes what it is told stands for NVIDIA's: links by name are its to make."""
    out, hook = runtimes.node.root.at("/var/tmp/hook.out"), runtimes.node.root.at("/var/tmp/nvidia-cdi-hook")
    hook.write_text('#!/bin/sh\n{ echo "$@"; cat; echo; } >>/var/tmp/hook.out\n')
    hook.chmod(0o755)
    kind, file = f"hook-{way}.test/gpu", runtimes.etc / "hook.json"
    made = runtimes.spec(kind, hook="/var/tmp/nvidia-cdi-hook")
    assert made.document is not None
    file.write_bytes(spec_bytes(made.document))
    try:
        until(lambda: runtimes.refusal(way, f"{kind}=0") == "")
        out.unlink()
        said = runtimes.said_in(way, f"ls /{LIBRARIES}; echo libraries $LD_LIBRARY_PATH", f"{kind}=0")
        real = f"{SONAME.removesuffix('1')}{runtimes.driver.state.driver_version}"
        assert said.split() == [real, "libraries"]
        links, first, caches, second = out.read_text().splitlines()
        assert links == f"create-symlinks --link {real}::/{LIBRARIES}/{SONAME}"
        assert caches == f"update-ldcache --folder /{LIBRARIES}"
        assert {json.loads(state)["status"] for state in (first, second)} == {"creating"}
    finally:
        file.unlink()
        out.unlink(missing_ok=True)


@pytest.mark.skipif(
    FOLDER_VARIABLE in os.environ and not HOOK.is_file(),
    reason="only `make kubernetes-binaries` builds nvidia-cdi-hook",
)
@pytest.mark.parametrize("way", ["podman", "containerd"])
def test_nvidias_own_program_takes_our_hooks(way: str, runtimes: Runtimes) -> None:
    """Links by every name, the loader's cache, and no other hook in the way."""
    hook = runtimes.node.root.at("/var/tmp/nvidia-cdi-hook")
    assert HOOK.is_file(), "remedy: make kubernetes-binaries"
    shutil.copy(HOOK, hook)
    kind, file = f"own-hook-{way}.test/gpu", runtimes.etc / "own-hook.json"
    document: Any = runtimes.spec(kind, hook="/var/tmp/nvidia-cdi-hook").document
    asked = [one["args"][1] for one in document["containerEdits"]["hooks"]]
    assert set(LATER_HOOKS) < set(asked)
    file.write_text(json.dumps(document))
    try:
        until(lambda: runtimes.refusal(way, f"{kind}=0") == "")
        script = f"readlink /{LIBRARIES}/{SONAME}; wc -c </etc/ld.so.cache; echo libraries $LD_LIBRARY_PATH"
        link, cache, nothing = runtimes.said_in(way, script, f"{kind}=0").splitlines()
        assert link == f"{SONAME.removesuffix('1')}{runtimes.driver.state.driver_version}"
        assert int(cache) > 0
        assert nothing == "libraries"
    finally:
        file.unlink()
        hook.unlink()


@pytest.mark.parametrize("way", ["podman", "containerd"])
def test_a_hook_does_not_take_over_the_containers_environment(way: str, runtimes: Runtimes) -> None:
    """CVE-2025-23266: not LD_PRELOAD, with which an image's code would run outside of the container."""
    out, hook = runtimes.node.root.at("/var/tmp/hook.env"), runtimes.node.root.at("/var/tmp/nvidia-cdi-hook")
    hook.write_text("#!/bin/sh\nenv >>/var/tmp/hook.env\n")
    hook.chmod(0o755)
    kind, file = f"environment-{way}.test/gpu", runtimes.etc / "environment.json"
    document: Any = runtimes.spec(kind, hook="/var/tmp/nvidia-cdi-hook").document
    document["containerEdits"]["env"].append("OF_THE_IMAGE=1")
    file.write_text(json.dumps(document))
    try:
        until(lambda: runtimes.refusal(way, f"{kind}=0") == "")
        seen = out.read_text()
        assert "NVIDIA_CTK_DEBUG=false" in seen
        assert "OF_THE_IMAGE" not in seen
    finally:
        file.unlink()
        out.unlink(missing_ok=True)


GOOD: Final[dict[str, Any]] = {
    "cdiVersion": "0.5.0",
    "kind": "",
    "devices": [{"name": "0", "containerEdits": {"env": ["A=b"]}}],
}


def device(name: object = "0", **edits: object) -> dict[str, Any]:
    return {**GOOD, "devices": [{"name": name, "containerEdits": edits}]}


BIND: Final = {"hostPath": "/etc", "containerPath": "/mnt", "options": ["rbind", "ro"]}
SPECS: Final[dict[str, dict[str, Any]]] = {
    "good": GOOD,
    "old": {**GOOD, "cdiVersion": "0.3.0"},
    "unknown-version": {**GOOD, "cdiVersion": "0.9.0"},
    "annotated": {**GOOD, "cdiVersion": "0.6.0", "annotations": {"a": "b"}},
    "annotated-old": {**GOOD, "annotations": {"a": "b"}},
    "groups": {**device(additionalGids=[7]), "cdiVersion": "0.7.0"},
    "groups-old": {**device(additionalGids=[7]), "cdiVersion": "0.6.0"},
    "newer": {**GOOD, "cdiVersion": "0.8.0"},
    "one": {**GOOD, "cdiVersion": "1.0.0"},
    "field": {**GOOD, "device": []},
    "inner-field": device(env=["A=b"], mount=[]),
    "no-devices": {**GOOD, "devices": []},
    "twice": {**GOOD, "devices": GOOD["devices"] * 2},
    "bad-name": device("0_", env=["A=b"]),
    "slash-name": device("a/b", env=["A=b"]),
    "no-edits": device(),
    "empty-edits": device(env=[]),
    "bad-env": device(env=["A"]),
    "nameless-env": device(env=["=b"]),
    "no-path": device(deviceNodes=[{"hostPath": "/dev/null"}]),
    "bad-type": device(deviceNodes=[{"path": "/dev/null", "type": "x"}]),
    "bad-permissions": device(deviceNodes=[{"path": "/dev/null", "permissions": "rz"}]),
    "bad-hook": device(hooks=[{"hookName": "later", "path": "/bin/true"}]),
    "pathless-hook": device(hooks=[{"hookName": "poststop"}]),
    "mount": device(mounts=[{"hostPath": "/etc", "containerPath": ""}]),
    "typed-mount": device(mounts=[{**BIND, "type": "bind"}]),
    "typed-mount-old": {**device("a", mounts=[{**BIND, "type": "bind"}]), "cdiVersion": "0.3.0"},
    "number-for-text": device(7, env=["A=b"]),
    "text-for-number": device(deviceNodes=[{"path": "/dev/null", "major": "1"}]),
    "list-for-object": {**GOOD, "containerEdits": []},
    "null": {**GOOD, "containerEdits": None},
    "capitals": {"CDIVersion": "0.5.0", "Kind": "", "Devices": GOOD["devices"]},
}
"""By name; a kind is added, a kind to each."""
AS_TEXT: Final = {
    "doubled-key": '{"cdiVersion": "0.5.0", "kind": "KIND", "kind": "KIND", "devices": [DEVICE]}',
    "documents": "cdiVersion: 0.5.0\nkind: KIND\ndevices: [DEVICE]\n---\nkind: other\n",
    "plain-number": "cdiVersion: 0.5.0\nkind: KIND\ndevices:\n- {name: 0, containerEdits: {env: [A=b]}}\n",
    "alias": "cdiVersion: 0.5.0\nkind: KIND\ndevices:\n- {name: '0', containerEdits: &a {env: [A=b]}}\n"
    "- {name: '1', containerEdits: *a}\n",
    "broken": "cdiVersion: [",
}


def lay(folder: Path) -> dict[str, str]:
    """Every spec in a file of its own; kinds by name."""
    kinds = {}
    for name, document in SPECS.items():
        kinds[name] = f"k-{name}.test/gpu"
        field = "Kind" if "Kind" in document else "kind"
        (folder / f"{name}.json").write_text(json.dumps({**document, field: kinds[name]}))
    for name, text in AS_TEXT.items():
        kinds[name] = f"k-{name}.test/gpu"
        content = text.replace("KIND", kinds[name]).replace("DEVICE", json.dumps(GOOD["devices"][0]))
        (folder / f"{name}.yaml").write_text(content)
    return kinds


def test_what_we_say_of_a_spec_is_what_containerd_says(runtimes: Runtimes, tmp_path: Path) -> None:
    """Each by itself among all the others: a broken one harms nobody. Our words are in containerd's log."""
    kinds = lay(tmp_path)
    shutil.copytree(tmp_path, runtimes.etc, dirs_exist_ok=True, ignore=shutil.ignore_patterns("good.json"))
    shutil.copy(tmp_path / "good.json", runtimes.etc)  # last: when it is known, all others are
    try:
        until(lambda: runtimes.refusal("containerd", f"{kinds['good']}=0") == "")
        ours = {Path(each.path).stem: each for each in check_specs([tmp_path])}
        theirs = {name: runtimes.refusal("containerd", f"{kinds[name]}={name_in(name)}") for name in kinds}
        assert {name for name, said in theirs.items() if said} == {
            name for name, each in ours.items() if each.problems
        }
        assert all("unresolvable CDI devices" in said for said in theirs.values() if said)
        log = runtimes.node.log("containerd").replace('\\"', '"')
        told = {problem.what for each in ours.values() for problem in each.problems}
        assert {what for what in told if what not in log and what not in OWN_WORDS} == set()
    finally:
        for file in tmp_path.iterdir():
            (runtimes.etc / file.name).unlink()


def name_in(spec: str) -> str:
    """Of the first device, as it is written."""
    devices = SPECS.get(spec, GOOD).get("devices")
    return str(devices[0]["name"]) if devices else "0"


OWN_WORDS: Final = {
    "no number",
    "no object",
    "failed to parse CDI Spec: duplicate key",
    "failed to parse CDI Spec: the text is not valid YAML",
}
"""Theirs speak of Go's types and of their parser."""


def test_of_two_folders_the_later_wins_and_a_conflict_stays_one(runtimes: Runtimes, tmp_path: Path) -> None:
    """In both runtimes, and in our words: two specs of one folder take the device from everybody."""
    runtimes.run.mkdir(exist_ok=True)
    places = {
        "clash": (runtimes.etc, runtimes.etc),
        "clash-below": (runtimes.etc, runtimes.etc, runtimes.run),
        "won": (runtimes.etc, runtimes.run),  # last: when it is known, all others are
    }
    made = []
    try:
        for name, folders in places.items():
            for number, folder in enumerate(folders):
                document = {**device(env=[f"FROM={number}"]), "kind": f"{name}.test/gpu"}
                made.append(folder / f"{name}-{number}.json")
                made[-1].write_text(json.dumps(document))
        (runtimes.etc / "loop.json").symlink_to("loop.json")
        made.append(runtimes.etc / "loop.json")
        for way in ("podman", "containerd"):
            until(lambda way=way: runtimes.refusal(way, "won.test/gpu=0") == "")  # type: ignore[misc]
            assert runtimes.said_in(way, "echo $FROM", "won.test/gpu=0") == "1\n"
            for name in ("clash", "clash-below"):
                assert f"unresolvable CDI devices {name}.test/gpu=0" in runtimes.refusal(
                    way, f"{name}.test/gpu=0"
                )
        ours = {
            Path(each.path).name: bool(each.problems) for each in check_specs([runtimes.etc, runtimes.run])
        }
        assert {name for name, wrong in ours.items() if wrong} == {
            *("clash-0.json", "clash-1.json", "clash-below-0.json", "clash-below-1.json", "loop.json")
        }
    finally:
        for file in made:
            file.unlink()
