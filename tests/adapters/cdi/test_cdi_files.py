"""The driver's files below a root, and the folder of CDI specs."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from support.driver_root import LIBRARIES, install_driver, make_driver_root
from support.nvml.state import DriverState, FakeGpu
from tonnage.adapters.cdi.driver_files import find_driver_files
from tonnage.adapters.cdi.files import MAX_BYTES, FolderCdi, read_spec, spec_files
from tonnage.model.devices.cdi import LATER_HOOKS, DriverFile
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import HardwareError
from tonnage.model.node.plugin_settings import CdiSettings, ExtraDevice

STATE = DriverState((FakeGpu(0, "A100-40"),))
VERSION = STATE.driver_version
FOLDER = f"/{LIBRARIES}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A driver with CUDA's library, a program in another place, data and a socket."""
    made = make_driver_root(tmp_path / "driver", STATE)
    libraries = made / LIBRARIES
    (libraries / f"libcuda.so.{VERSION}").write_text("cuda")
    (libraries / "libcuda.so.1").symlink_to(f"libcuda.so.{VERSION}")
    (libraries / "libcuda.so").symlink_to("libcuda.so.1")
    (libraries / "libother.so.7").write_text("not the driver's")
    (libraries / "libold.so.1.2.3").write_text("of another version")
    (libraries / "vdpau").mkdir()
    (libraries / f"vdpau/libvdpau_nvidia.so.{VERSION}").write_text("vdpau")
    (made / "usr/bin").mkdir(parents=True)
    (made / "opt/nv").mkdir(parents=True)
    (made / "opt/nv/smi").write_text("#!")
    (made / "usr/bin/nvidia-smi").symlink_to("/opt/nv/smi")
    (made / f"lib/firmware/nvidia/{VERSION}").mkdir(parents=True)
    (made / f"lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin").write_text("gsp")
    return made


def test_everything_of_the_driver_is_found_with_the_links_that_lead_to_it(root: Path) -> None:
    files = find_driver_files(root, root, VERSION)
    cuda = f"{FOLDER}/libcuda.so.{VERSION}"
    ml = f"{FOLDER}/libnvidia-ml.so.{VERSION}"
    vdpau = f"{FOLDER}/vdpau/libvdpau_nvidia.so.{VERSION}"
    assert files.libraries == (
        DriverFile(cuda, cuda, (f"{FOLDER}/libcuda.so", f"{FOLDER}/libcuda.so.1")),
        DriverFile(ml, ml, (f"{FOLDER}/libnvidia-ml.so.1",)),
        DriverFile(vdpau, vdpau),
    )
    assert files.cuda_folder == FOLDER
    assert files.programs == (DriverFile("/usr/bin/nvidia-smi", "/opt/nv/smi"),)
    firmware = f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin"
    assert files.data_files == (DriverFile(firmware, firmware),)
    assert files.problems == ()
    assert find_driver_files(root, root, "") == files, "the library's own name has the version"


def test_what_graphics_need_is_found(root: Path) -> None:
    """Of this version alone, and where a container looks for it."""
    modules = "usr/lib/xorg/modules"
    paths = [
        "usr/share/egl/egl_external_platform.d/20_nvidia_xcb.json",
        "usr/share/X11/xorg.conf.d/10-nvidia.conf",
        "usr/share/vulkan/icd.d/nvidia_icd.json",
        f"{modules}/drivers/nvidia_drv.so",
        f"{modules}/extensions/libglxserver_nvidia.so.{VERSION}",
    ]
    before = {file.path for file in find_driver_files(root, root, VERSION).data_files}
    for path in (*paths, f"{modules}/extensions/libglxserver_nvidia.so.1.2.3", "usr/bin/nvidia-xconfig"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    found = find_driver_files(root, root, VERSION)
    assert {file.path for file in found.data_files} - before == {f"/{path}" for path in paths}
    assert [file.names for file in found.data_files if file.names] == [
        (f"/{modules}/extensions/libglxserver_nvidia.so",)
    ]
    assert "/usr/bin/nvidia-xconfig" in {file.path for file in found.programs}


def test_libraries_have_the_names_by_which_programs_ask_for_them(root: Path) -> None:
    """Also where the host has no link of that name."""
    libraries = root / LIBRARIES
    for name in ("libGLX_nvidia", "libnvidia-opticalflow", "libnvidia-allocator"):
        (libraries / f"{name}.so.{VERSION}").touch()
    (libraries / "libcuda.so").unlink()
    names = {file.path: file.names for file in find_driver_files(root, root, VERSION).libraries}
    assert f"{FOLDER}/libcuda.so" in names[f"{FOLDER}/libcuda.so.{VERSION}"]
    assert names[f"{FOLDER}/libGLX_nvidia.so.{VERSION}"] == (f"{FOLDER}/libGLX_indirect.so.0",)
    assert names[f"{FOLDER}/libnvidia-opticalflow.so.{VERSION}"] == (f"{FOLDER}/libnvidia-opticalflow.so",)
    assert names[f"{FOLDER}/libnvidia-allocator.so.{VERSION}"] == (f"{FOLDER}/gbm/nvidia-drm_gbm.so",)


def test_links_by_pci_address_lead_to_graphics_nodes(root: Path) -> None:
    folder = root / "dev/dri/by-path"
    folder.mkdir(parents=True)
    links = {
        "pci-0000:17:00.0-card": "../card1",
        "pci-0000:17:00.0-render": "../renderD128",
        "pci-0000:17:00.0-other": "../../null",
        "usb-1": "../card2",
    }
    for name, end in links.items():
        (folder / name).symlink_to(end)
    (folder / "pci-0000:18:00.0-card").touch()
    assert find_driver_files(root, root, VERSION).by_path == {
        "/dev/dri/card1": "/dev/dri/by-path/pci-0000:17:00.0-card",
        "/dev/dri/renderD128": "/dev/dri/by-path/pci-0000:17:00.0-render",
    }


def test_nothing_outside_the_root_is_found(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    libraries = root / LIBRARIES
    (libraries / f"libnvidia-evil.so.{VERSION}").symlink_to("../../../../secret")
    (libraries / f"liba.so.{VERSION}").symlink_to(f"libb.so.{VERSION}")
    (libraries / f"libb.so.{VERSION}").symlink_to(f"liba.so.{VERSION}")
    (root / "usr/bin/nvidia-debugdump").symlink_to(tmp_path / "secret")
    files = find_driver_files(root, root, VERSION)
    assert not [file for file in files.libraries if "evil" in file.path or "/liba" in file.path]
    assert [file.path for file in files.programs] == ["/usr/bin/nvidia-smi"]


def test_a_root_without_a_driver_has_nothing_and_says_so(tmp_path: Path) -> None:
    files = find_driver_files(tmp_path, tmp_path, "")
    assert (files.libraries, files.programs) == ((), ())
    assert "no libcuda.so.1" in files.problems[0]


def test_sockets_and_graphics_nodes_are_found(root: Path) -> None:
    (root / "run/nvidia-persistenced").mkdir(parents=True)
    here = Path.cwd()
    os.chdir(root / "run/nvidia-persistenced")  # a socket's path holds 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind("socket")
    finally:
        os.chdir(here)
    (address,) = (entry.name for entry in (root / "sys/bus/pci/devices").iterdir())
    (root / f"sys/bus/pci/devices/{address}/drm/card1").mkdir(parents=True)
    (root / "dev/dri").mkdir()
    try:
        os.mknod(root / "dev/dri/card1", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("needs the right to make device nodes")
    files = find_driver_files(root, root, VERSION)
    assert [file.path for file in files.sockets] == ["/run/nvidia-persistenced/socket"]
    assert files.render == {address: ("/dev/dri/card1",)}


def test_what_a_container_may_get_beside_gpus_is_found(root: Path) -> None:
    """GDRCopy, GPUDirect Storage, Mellanox devices; a file of such a name is none."""
    (root / "dev/infiniband").mkdir(parents=True)
    for name in ("gdrdrv", "nvidia-fs0", "nvidia-fs1", "infiniband/uverbs0", "infiniband/rdma_cm"):
        (root / "dev" / name).symlink_to("/dev/null")
    (root / "dev/nvidia-fs2").write_text("")
    assert find_driver_files(root, root, VERSION).extras == {
        ExtraDevice.GDRCOPY: ("/dev/gdrdrv",),
        ExtraDevice.GDS: ("/dev/nvidia-fs0", "/dev/nvidia-fs1"),
        ExtraDevice.MOFED: ("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"),
    }


@pytest.mark.parametrize(
    ("programs", "config", "found"),
    [
        ((), PluginConfig(), ""),
        (("nvidia-ctk",), PluginConfig(), "/usr/bin/nvidia-ctk"),
        (("nvidia-ctk", "nvidia-cdi-hook"), PluginConfig(), "/usr/bin/nvidia-cdi-hook"),
        (
            ("nvidia-ctk", "other"),
            PluginConfig(cdi=CdiSettings(hook_path="/usr/bin/other")),
            "/usr/bin/other",
        ),
        ((), PluginConfig(cdi=CdiSettings(hook_path="/usr/bin/other")), ""),
        (("nvidia-ctk",), PluginConfig(driver_root="/run/nvidia/driver"), ""),
        (
            (),
            PluginConfig(driver_root="/run/nvidia/driver", cdi=CdiSettings(hook_path="/out/of/sight")),
            "",
        ),
    ],
    ids=[
        "none is there",
        "the older one",
        "the newer one first",
        "the one that is named",
        "one that is named and not there",
        "the host is out of sight",
        "named by a configuration, and the host is out of sight",
    ],
)
async def test_the_hooks_program(
    root: Path, programs: tuple[str, ...], config: PluginConfig, found: str
) -> None:
    for name in programs:
        (root / "usr/bin" / name).write_text("#!")
        (root / "usr/bin" / name).chmod(0o755)
    files = await FolderCdi(root, root).driver_files(VERSION, config)
    assert files.hook == found


async def test_a_program_that_the_agents_flag_names_is_taken_out_of_sight(root: Path) -> None:
    config = PluginConfig(driver_root="/run/nvidia/driver", cdi=CdiSettings(hook_path="/out/of/sight"))
    assert (await FolderCdi(root, root, own_hook=True).driver_files(VERSION, config)).hook == "/out/of/sight"


@pytest.mark.parametrize("own", [False, True], ids=["a configuration names it", "the agent's flag names it"])
async def test_a_program_that_others_may_write_is_no_hook_unless_a_flag_names_it(
    root: Path, own: bool
) -> None:
    program = root / "usr/local/toolkit/nvidia-ctk"
    program.parent.mkdir(parents=True)
    program.write_text("#!")
    program.chmod(0o755)
    program.parent.chmod(0o777)
    config = PluginConfig(cdi=CdiSettings(hook_path="/usr/local/toolkit/nvidia-ctk"))
    files = await FolderCdi(root, root, own_hook=own).driver_files(VERSION, config)
    assert files.hook == ("/usr/local/toolkit/nvidia-ctk" if own else "")
    why = "/usr/local/toolkit is writable by others than root (mode 0777)"
    assert any(why in problem for problem in files.problems) != own


@pytest.mark.parametrize(
    ("name", "content", "known"),
    [
        ("nvidia-cdi-hook", b"\x7fELF\0create-symlinks\0enable-cuda-compat\0", {"enable-cuda-compat"}),
        ("nvidia-cdi-hook", b"\x7fELF\0create-symlinks\0", set()),
        ("nvidia-cdi-hook.real", b"\0".join(map(str.encode, LATER_HOOKS)), set(LATER_HOOKS)),
        ("nvidia-cdi-hook", b"", set()),
    ],
    ids=["of v1.17", "an older one", "of the operator, behind a script", "an empty file"],
)
async def test_which_hooks_the_program_knows(root: Path, name: str, content: bytes, known: set[str]) -> None:
    program = root / "usr/bin/nvidia-cdi-hook"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (root / "usr/bin" / name).write_bytes(content)
    assert (await FolderCdi(root, root).driver_files(VERSION, PluginConfig())).hooks == known


async def test_specs_are_written_whole_readable_by_all_and_removed(tmp_path: Path) -> None:
    cdi = FolderCdi(tmp_path)
    assert await cdi.read("a.json") is None
    await cdi.write("a.json", b"{}")
    file = tmp_path / "var/run/cdi/a.json"
    assert [path.name for path in file.parent.iterdir()] == ["a.json"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert await cdi.read("a.json") == b"{}"
    await cdi.remove("a.json")
    await cdi.remove("a.json")
    assert await cdi.read("a.json") is None


async def test_what_is_no_spec_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big.json").write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(HardwareError, match="File too large"):
        read_spec(tmp_path / "big.json")
    with pytest.raises(HardwareError, match="Is a directory"):
        read_spec(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(HardwareError, match="it is not a regular file"):
        read_spec(tmp_path / "pipe.json")
    for told in ("/proc/version", "/proc/kmsg", "/sys/kernel/uevent_seqnum"):
        link = tmp_path / f"{told.rpartition('/')[2]}.json"
        link.symlink_to(told)
        with pytest.raises(HardwareError, match=r"it is a link into a kernel file system|cannot be read"):
            read_spec(link)
    (tmp_path / "var").write_text("in the way")
    with pytest.raises(HardwareError):
        await FolderCdi(tmp_path).write("a.json", b"{}")


def test_of_a_folder_of_large_specs_it_is_said_how_many_were_not_looked_at(tmp_path: Path) -> None:
    for number in range(10):
        with (tmp_path / f"{number}.json").open("wb") as file:
            file.truncate(MAX_BYTES)
    found = [(file.path, file.left_out) for file in spec_files([tmp_path])]
    assert found == [*((f"{tmp_path}/{number}.json", 0) for number in range(8)), (str(tmp_path), 2)]


def test_links_out_of_the_folder_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "cdi"
    folder.mkdir()
    (folder / "a.json").write_text("{}")
    (folder / "b.json").symlink_to("a.json")
    (tmp_path / "other").write_text("{}")
    (folder / "c.json").symlink_to(tmp_path / "other")
    (tmp_path / "linked").symlink_to("cdi")
    told = {Path(each.path).name: each.leads_to for each in spec_files([tmp_path / "linked"])}
    assert told == {"a.json": "", "b.json": "", "c.json": str((tmp_path / "other").resolve())}


async def test_the_stamp_follows_the_drivers_files_and_the_specs(root: Path, tmp_path: Path) -> None:
    cdi, name = FolderCdi(tmp_path, root), "k8s.device-plugin.nvidia.com-gpu.json"
    stamps = [await cdi.stamp()]
    await cdi.write(name, b"{}")
    stamps.append(await cdi.stamp())
    assert await cdi.stamp() == stamps[-1]
    install_driver(root, "999.1")
    stamps.append(await cdi.stamp())
    await cdi.remove(name)
    stamps.append(await cdi.stamp())
    assert len(set(stamps)) == len(stamps)


async def test_what_a_killed_writer_left_goes_with_the_next_writing_or_removal(tmp_path: Path) -> None:
    cdi, folder = FolderCdi(tmp_path), tmp_path / "var/run/cdi"
    await cdi.write("b.json", b"{}")
    for last in (cdi.write("a.json", b"{}"), cdi.remove("a.json")):
        (folder / ".a.json.x1y2z3w4").write_bytes(b"{")
        (folder / ".b.json.x1y2z3w4").write_bytes(b"{")
        await last
        assert {file.name for file in folder.iterdir()} - {"a.json"} == {"b.json", ".b.json.x1y2z3w4"}
