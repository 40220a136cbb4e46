"""CDI specs: what is in them, and that any inventory makes a valid one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cdi_parts import (
    CUDA,
    DIVIDED,
    FILES,
    FOLDER,
    INVENTORY,
    NEW_PROGRAM,
    NODES,
    SOCKET,
    WHOLE,
    document,
    nodes,
)
from tonnage.decide.node.access import access_to
from tonnage.decide.node.cdi.rules import minimum_version, spec_problems
from tonnage.decide.node.cdi.spec import cdi_specs, gpu_spec, spec_bytes
from tonnage.decide.node.inject import inject
from tonnage.decide.node.share import share
from tonnage.model.devices.cdi import CdiOptions
from tonnage.model.devices.device_nodes import CONTROL_NODES, DeviceNodes
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import Allocation, DeviceIdStrategy, DeviceListStrategy, PluginConfig
from tonnage.model.names import CDI_GPU_KIND
from tonnage.model.node.plugin_settings import (
    CDI_HOOKS,
    NO_SOCKETS,
    CdiSettings,
    ExtraDevice,
    ImexSettings,
    MigStrategy,
)


def test_a_device_is_there_under_uuid_index_and_type_index() -> None:
    spec = document()
    assert (spec["cdiVersion"], spec["kind"]) == ("0.5.0", CDI_GPU_KIND)
    assert sorted(device["name"] for device in spec["devices"]) == sorted(
        ["GPU-a", "0", "gpu0", "MIG-a", "1:0", "mig1:0", "all"]
    )
    own = ["/dev/nvidia1", "/dev/dri/card1", "/dev/dri/renderD128"]
    assert nodes(spec, "GPU-a") == nodes(spec, "0") == nodes(spec, "gpu0") == own
    part = ["/dev/nvidia4", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"]
    assert nodes(spec, "MIG-a") == nodes(spec, "1:0") == part
    assert nodes(spec, "all") == [*own, *part]


def test_a_divided_device_as_a_whole_reaches_its_parts_only_where_it_is_offered_so() -> None:
    spec = document(options=CdiOptions(divided=True))
    assert nodes(spec, "GPU-b") == nodes(spec, "MIG-a")
    assert "GPU-b" not in {device["name"] for device in document()["devices"]}


def test_without_hooks_a_container_finds_the_libraries_by_every_name() -> None:
    edits = document(options=CdiOptions(driver_root="/run/nvidia/driver"))["containerEdits"]
    assert edits["env"] == [
        f"NVIDIA_CTK_LIBCUDA_DIR={FOLDER}",
        f"LD_LIBRARY_PATH={FOLDER}",
        "NVIDIA_VISIBLE_DEVICES=void",
    ]
    real = f"/run/nvidia/driver{FOLDER}/libcuda.so.570.1"
    mounts = {mount["containerPath"]: mount for mount in edits["mounts"]}
    for name in ("libcuda.so", "libcuda.so.1", "libcuda.so.570.1"):
        options = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
        assert mounts[f"{FOLDER}/{name}"] == {
            "hostPath": real,
            "containerPath": f"{FOLDER}/{name}",
            "options": options,
        }
    assert mounts["/usr/bin/nvidia-smi"]["hostPath"] == "/run/nvidia/driver/opt/bin/nvidia-smi"
    assert mounts["/run/nvidia-persistenced/socket"]["options"][-1] == "noexec"
    assert [node["path"] for node in edits["deviceNodes"]] == list(CONTROL_NODES)
    assert "hooks" not in edits


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ("/usr/bin/nvidia-cdi-hook", ["nvidia-cdi-hook"]),
        ("/opt/toolkit/nvidia-ctk", ["nvidia-ctk", "hook"]),
    ],
)
def test_with_nvidias_program_hooks_make_links_and_the_loaders_cache(hook: str, words: list[str]) -> None:
    edits = document(files=replace(FILES, hook=hook))["containerEdits"]
    links, cache = edits["hooks"]
    pairs = [f"libcuda.so.570.1::{name}" for name in CUDA.names]
    assert links == {
        "hookName": "createContainer",
        "path": hook,
        "args": [*words, "create-symlinks", "--link", pairs[0], "--link", pairs[1]],
        "env": ["NVIDIA_CTK_DEBUG=false"],
    }
    assert cache["args"] == [*words, "update-ldcache", "--folder", FOLDER]
    assert "libcuda.so.1" not in {mount["containerPath"].rpartition("/")[2] for mount in edits["mounts"]}
    assert not [variable for variable in edits["env"] if variable.startswith("LD_")]


def test_disabled_hooks_are_not_there() -> None:
    files = replace(FILES, hook="/usr/bin/nvidia-cdi-hook")
    one = document(files=files, options=CdiOptions(disabled_hooks=("create-symlinks",)))["containerEdits"]
    assert [hook["args"][1] for hook in one["hooks"]] == ["update-ldcache"]
    assert document(files=files, options=CdiOptions(disabled_hooks=("all",))) == document()


def test_every_hook_and_feature_that_may_be_named_is_left_out_or_never_there() -> None:
    """`cdiDisableHooks` and `cdiFeatureFlags`."""
    every = document(files=NEW_PROGRAM, options=CdiOptions(disabled_hooks=CDI_HOOKS[1:]))
    assert every == document()
    for hook in CDI_HOOKS[1:]:
        less = document(files=NEW_PROGRAM, options=CdiOptions(disabled_hooks=(hook,)))
        assert hook not in json.dumps(less)
    made = json.dumps(document(files=NEW_PROGRAM))
    assert [hook for hook in CDI_HOOKS[1:] if hook in made] == [*CDI_HOOKS[1:-2]]
    assert "additionalGids" not in made


def test_without_sockets_of_daemons_where_they_are_not_wanted() -> None:
    settings = CdiSettings(feature_flags=(NO_SOCKETS,))
    config = PluginConfig(device_list=(DeviceListStrategy.CDI_CRI,), cdi=settings)
    with_them, without = (
        cdi_specs(INVENTORY, FILES, one)[0].document for one in (replace(config, cdi=CdiSettings()), config)
    )
    assert SOCKET.path in json.dumps(with_them)
    assert SOCKET.path not in json.dumps(without)


def test_nodes_of_a_driver_with_its_own_dev_are_taken_from_there() -> None:
    theirs = DeviceNodes(frozenset({"/dev/nvidiactl"}), frozenset({"/dev/nvidia1", "/dev/nvidiactl"}))
    spec = document(Inventory((WHOLE,), nodes=theirs), options=CdiOptions(dev_root="/run/nvidia/driver"))
    (node,) = spec["containerEdits"]["deviceNodes"]
    assert node == {"path": "/dev/nvidiactl", "hostPath": "/run/nvidia/driver/dev/nvidiactl"}
    assert nodes(spec, "0")[0] == "/dev/nvidia1"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        pytest.param(replace(WHOLE, minor=9), "/dev/nvidia9 is missing", id="no node"),
        pytest.param(replace(WHOLE, minor=None), "the minor number of GPU-a is missing", id="no minor"),
        pytest.param(
            replace(WHOLE, uuid="GPU a"), "invalid character ' ' in device name \"GPU a\"", id="bad name"
        ),
    ],
)
def test_a_device_that_does_not_validate_is_left_out_and_the_rest_stays(broken: Device, why: str) -> None:
    made = gpu_spec(replace(INVENTORY, devices=(broken, DIVIDED)), FILES, CdiOptions())
    assert made.names == {"MIG-a", "1:0", "mig1:0", "all"}
    assert [problem.why for problem in made.left_out] == [why]
    assert spec_problems(made.document) == ()


def test_a_mig_device_without_capability_is_left_out_and_advertised_as_unusable() -> None:
    lacking = replace(INVENTORY, nodes=replace(NODES, capabilities={"gpu4/gi7/access": 30}))
    made = gpu_spec(lacking, FILES, CdiOptions())
    assert made.names == {"GPU-a", "0", "gpu0", "all"}
    config = PluginConfig(device_list=(DeviceListStrategy.CDI_CRI,), mig_strategy=MigStrategy.MIXED)
    slots = [slot for resource in share(lacking, config).resources for slot in resource.slots]
    assert [slot.healthy for slot in slots if slot.uuid == "MIG-a"] == [False]


names = st.text(min_size=1, max_size=12) | st.sampled_from(["all", "0", "1", "gpu0", "GPU-1", "1:0"])
migs = st.builds(
    MigDevice,
    names,
    st.integers(0, 7),
    st.just("1g.5gb"),
    st.integers(0, 3),
    st.integers(0, 1),
    st.just(1),
)
devices = st.builds(
    Device,
    names,
    st.integers(0, 9),
    st.just("X"),
    st.just(1),
    minor=st.none() | st.integers(0, 5),
    mig_enabled=st.sampled_from([None, False, True]),
    migs=st.lists(migs, max_size=3).map(tuple),
)
paths = st.sampled_from([*CONTROL_NODES, *(f"/dev/nvidia{minor}" for minor in range(6))])
capabilities = st.dictionaries(
    st.sampled_from([f"gpu{g}/gi{i}/{c}access" for g in (0, 1) for i in (0, 1) for c in ("", "ci0/")]),
    st.integers(1, 300),
)
node_sets = st.builds(DeviceNodes, st.frozensets(paths), st.frozensets(paths), capabilities)
inventories = st.builds(Inventory, st.lists(devices, max_size=6).map(tuple), nodes=node_sets)


@given(
    inventories, st.booleans(), st.sampled_from(["/", "/run/driver"]), st.sampled_from(["", "/x/nvidia-ctk"])
)
def test_any_inventory_makes_a_valid_spec_or_none(
    inventory: Inventory, divided: bool, root: str, hook: str
) -> None:
    options = CdiOptions(driver_root=root, dev_root=root, divided=divided)
    made = gpu_spec(inventory, replace(FILES, hook=hook), options)
    assert gpu_spec(inventory, replace(FILES, hook=hook), options) == made
    if made.document is None:
        assert not made.names
        return
    assert spec_problems(made.document) == ()
    assert made.document["cdiVersion"] == minimum_version(made.document)


@pytest.mark.parametrize("ids", list(DeviceIdStrategy))
@pytest.mark.parametrize("mig", list(MigStrategy))
def test_every_name_of_an_answer_is_in_a_spec(ids: DeviceIdStrategy, mig: MigStrategy) -> None:
    config = PluginConfig(
        device_list=(DeviceListStrategy.CDI_CRI,),
        device_id=ids,
        mig_strategy=mig,
        imex=ImexSettings((0,)),
        extras=(ExtraDevice.GDRCOPY,),
    )
    files = replace(FILES, extras={ExtraDevice.GDRCOPY: ("/dev/gdrdrv",)})
    made = cdi_specs(INVENTORY, files, config)
    defined = {f"{spec.kind}={name}" for spec in made for name in spec.names}
    assert all(spec_problems(spec.document) == () for spec in made if spec.document)
    plan = share(INVENTORY, config)
    slots = [slot for resource in plan.resources for slot in resource.slots if slot.healthy]
    assert slots
    for slot in slots:
        allocation = Allocation(plan.resources[0].name, (slot.id,), (slot.uuid,))
        assert defined.issuperset(inject(allocation, config, access_to(INVENTORY, config)).cdi_devices)


@pytest.mark.parametrize(
    ("extra", "paths", "missing"),
    [
        (ExtraDevice.GDRCOPY, ("/dev/gdrdrv",), "/dev/gdrdrv"),
        (ExtraDevice.GDS, ("/dev/nvidia-fs0", "/dev/nvidia-fs1"), "/dev/nvidia-fs*"),
        (
            ExtraDevice.MOFED,
            ("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"),
            "/dev/infiniband/uverbs*",
        ),
    ],
)
def test_what_is_asked_for_beside_gpus_has_a_spec_or_says_what_is_missing(
    extra: ExtraDevice, paths: tuple[str, ...], missing: str
) -> None:
    config = PluginConfig(device_list=(DeviceListStrategy.CDI_CRI,), extras=(extra,))
    there = cdi_specs(INVENTORY, replace(FILES, extras={extra: paths}), config)[-1]
    assert there.document is not None
    assert spec_problems(there.document) == ()
    made = json.loads(spec_bytes(there.document))
    assert (made["kind"], nodes(made, "all")) == (f"k8s.device-plugin.nvidia.com/{extra}", list(paths))
    absent = cdi_specs(INVENTORY, FILES, config)[-1]
    (problem,) = absent.left_out
    assert (absent.document, absent.kind) == (None, there.kind)
    assert f"{extra}Enabled is true, but the node lacks {missing}" in problem.why
