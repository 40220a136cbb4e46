"""CDI specs: the hooks of NVIDIA's program, and the devices and names that a person chooses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.cdi_parts import DIVIDED, FILES, FOLDER, INVENTORY, MIG, NEW_PROGRAM, WHOLE, document, nodes
from tonnage.decide.node.cdi.spec import gpu_spec
from tonnage.model.devices.cdi import LATER_HOOKS, CdiOptions, DriverFile, NameStrategy

BY_PATH = "/dev/dri/by-path/pci-0000:17:00.0-card"
GRAPHICS = replace(NEW_PROGRAM, by_path={"/dev/dri/card1": BY_PATH})


def hooks_of(edits: Any) -> list[str]:
    return [hook["args"][1] for hook in edits["hooks"]]


def test_of_the_newer_hooks_there_are_those_that_the_program_knows() -> None:
    """An older one that is told a hook that it does not know lets no container start."""
    edits = document(files=NEW_PROGRAM)["containerEdits"]
    assert hooks_of(edits) == [
        *("create-symlinks", "enable-cuda-compat", "update-ldcache"),
        *("disable-device-node-modification", "update-application-profile"),
    ]
    assert edits["hooks"][1]["args"][2:] == ["--host-driver-version=570.1"]
    for hook in LATER_HOOKS:
        old = document(files=replace(NEW_PROGRAM, hooks=frozenset({hook})))["containerEdits"]
        assert set(hooks_of(old)) == {"create-symlinks", "update-ldcache", hook}


def test_no_hook_takes_over_what_the_image_says_of_its_environment() -> None:
    """CVE-2025-23266: LD_PRELOAD of an image ran the image's code in a hook."""
    spec = document(files=GRAPHICS)
    hooks = [hook for owner in (spec, *spec["devices"]) for hook in owner["containerEdits"].get("hooks", ())]
    assert len(hooks) > 5
    assert all(hook["env"] == ["NVIDIA_CTK_DEBUG=false"] for hook in hooks)


def test_without_links_and_cache_the_libraries_are_found_as_without_hooks() -> None:
    options = CdiOptions(disabled_hooks=("create-symlinks", "update-ldcache"))
    edits = document(files=NEW_PROGRAM, options=options)["containerEdits"]
    plain = document()["containerEdits"]
    assert (edits["env"], edits["mounts"]) == (plain["env"], plain["mounts"])
    assert hooks_of(edits) == [*LATER_HOOKS]


def test_the_loaders_cache_is_made_with_the_program_that_is_named() -> None:
    edits = document(files=NEW_PROGRAM, options=CdiOptions(ldconfig="/sbin/ldconfig.real"))["containerEdits"]
    assert edits["hooks"][2]["args"][1:4] == ["update-ldcache", "--ldconfig-path", "/sbin/ldconfig.real"]


def test_graphics_nodes_have_their_links_by_pci_address() -> None:
    edits = {device["name"]: device["containerEdits"] for device in document(files=GRAPHICS)["devices"]}
    for name in ("GPU-a", "all"):
        (hook,) = edits[name]["hooks"]
        assert hook["args"] == ["nvidia-cdi-hook", "create-symlinks", "--link", f"../card1::{BY_PATH}"]
    assert "hooks" not in edits["MIG-a"]


def test_a_name_in_another_folder_is_a_link_that_leads_there() -> None:
    allocator = f"{FOLDER}/libnvidia-allocator.so.570.1"
    gbm = DriverFile(allocator, allocator, (f"{FOLDER}/gbm/nvidia-drm_gbm.so",))
    edits = document(files=replace(NEW_PROGRAM, libraries=(gbm,)))["containerEdits"]
    assert edits["hooks"][0]["args"][3] == f"../libnvidia-allocator.so.570.1::{gbm.names[0]}"


def test_graphics_reach_parts_that_have_them() -> None:
    gpu = replace(DIVIDED, pci_bus_id=WHOLE.pci_bus_id, migs=(replace(MIG, profile="1g.24gb+gfx"),))
    spec = document(replace(INVENTORY, devices=(gpu,)))
    assert nodes(spec, "MIG-a")[-2:] == ["/dev/dri/card1", "/dev/dri/renderD128"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (CdiOptions(names=frozenset({NameStrategy.INDEX})), {"0", "1:0", "all"}),
        (CdiOptions(names=frozenset({NameStrategy.UUID}), together=False), {"GPU-a", "MIG-a"}),
        (CdiOptions(names=frozenset({NameStrategy.TYPE_INDEX})), {"gpu0", "mig1:0", "all"}),
        (CdiOptions(only=frozenset({"mig1:0"})), {"MIG-a", "1:0", "mig1:0", "all"}),
        (
            CdiOptions(names=frozenset({NameStrategy.INDEX}), only=frozenset({"GPU-a", "all"})),
            {"0", "1:0", "all"},
        ),
    ],
    ids=[
        "by index",
        "by uuid, and not all together",
        "by type and index",
        "one of them",
        "everything, though one is named in another way",
    ],
)
def test_devices_are_those_and_named_so_as_is_wanted(options: CdiOptions, names: set[str]) -> None:
    spec = gpu_spec(INVENTORY, FILES, options)
    assert spec.names == names
    assert spec.left_out == ()


def test_a_device_that_is_wanted_and_nowhere_is_told_with_the_nearest() -> None:
    spec = gpu_spec(INVENTORY, FILES, CdiOptions(only=frozenset({"gpu0", "mig1:1"})))
    assert "gpu0" in spec.names
    assert [(problem.what, problem.remedy) for problem in spec.left_out] == [
        ("no device is named mig1:1", "use mig1:0 if you meant that")
    ]
