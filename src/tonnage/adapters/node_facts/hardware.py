"""GPUs on the PCI bus, the driver's state in the kernel, its nodes and libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tonnage.adapters.node_facts.files import NodeFiles, Numbers, device_numbers
from tonnage.adapters.node_facts.loader_cache import cached_libraries
from tonnage.adapters.vendors.driver_root import LIBRARY_FOLDERS, resolved_inside
from tonnage.model.devices.device_nodes import CAPABILITY_FOLDER
from tonnage.model.node.facts import (
    DeviceNodeFacts,
    DriverFacts,
    HardwareFacts,
    Kernel,
    LibraryFacts,
    LibraryFile,
    NodeFile,
    PciGpu,
)

LIBRARIES: Final = ("libnvidia-ml.so.1", "libcuda.so.1")
CONTAINER_DRIVER: Final = "/run/nvidia/driver"
_GOOGLES_DRIVER: Final = "/home/kubernetes/bin/nvidia"
AGENTS_DRIVER: Final = ("/driver-root", "/driver-parent/driver")
"""Where the agent's pod has the driver's files: of a folder of the host, and of NVIDIA's container."""
_PCI: Final = "/sys/bus/pci/devices"
_CLASSES: Final = {"10de": ("0300", "0302"), "1002": ("0302", "0380", "1200"), "1da3": ("1200", "0880")}
_MODULES: Final = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nouveau", "amdgpu", "habanalabs")
_VERSION: Final = re.compile(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s")
_NUMBERED: Final = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)?)$")
_MODULE_FILE: Final = re.compile(r"(?:^|/)nvidia\.ko(?:\.[a-z0-9]+)?:", re.MULTILINE)
_NOUVEAU_FILE: Final = re.compile(r"/nouveau\.ko(?:\.[a-z0-9]+)?:")
_BLACKLIST: Final = re.compile(
    r"^\s*(?:blacklist\s+nouveau|install\s+nouveau\s+/(?:usr/)?bin/(?:false|true))\s*(?:#.*)?$", re.MULTILINE
)
_PARAMETER: Final = re.compile(
    r"(?:^|\s)((?:modprobe\.|module_|rd\.driver\.)blacklist=(?:[\w,.-]*,)?nouveau(?:,[\w,.-]*)?"
    r"|nouveau\.modeset=0)(?=\s|$)"
)
_BLACKLIST_FOLDERS: Final = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
_SECURE_BOOT: Final = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_READY: Final = "/run/nvidia/validations/driver-ready"
_MOST_GPUS: Final = 512
_MOST_KERNELS: Final = 32
_DEPENDENCIES: Final = 8 << 20
_CACHE: Final = 16 << 20


def hardware_facts(files: NodeFiles) -> HardwareFacts:
    """GPUs by PCI class and vendor, in the order of addresses."""
    if not files.there(_PCI):
        return HardwareFacts()
    return HardwareFacts(tuple(_gpus(files))[:_MOST_GPUS])


def _gpus(files: NodeFiles) -> Iterator[PciGpu]:
    for address in files.names(_PCI):
        folder = f"{_PCI}/{address}"
        vendor = files.text(f"{folder}/vendor", 64).lower().removeprefix("0x")
        code = files.text(f"{folder}/class", 64).lower().removeprefix("0x")
        if code[:4] not in _CLASSES.get(vendor, ()):
            continue
        device = files.text(f"{folder}/device", 64).lower().removeprefix("0x")
        config = files.read(f"{folder}/config", 8192).content or b""
        dead = len(config) >= 4 and not config.strip(b"\xff")
        yield PciGpu(address, vendor, device, files.link(f"{folder}/driver"), dead)


def driver_facts(files: NodeFiles) -> DriverFacts:
    """The kernel and its modules; nothing here asks the driver itself."""
    release = files.text("/proc/sys/kernel/osrelease", 4096)
    nouveau = _NOUVEAU_FILE.search(files.text(f"/lib/modules/{release}/modules.dep", _DEPENDENCIES))
    taint = files.text("/proc/sys/kernel/tainted", 64)
    container = [file for file in _libraries(files, CONTAINER_DRIVER) if file.version]
    return DriverFacts(
        modules=frozenset(name for name in _MODULES if files.there(f"/sys/module/{name}")),
        version=module_version(files),
        kernel=release,
        kernels=tuple(_kernels(files)),
        os_id=_os_id(files),
        nouveau_installed=nouveau is not None,
        blacklists=tuple(_blacklists(files)),
        secure_boot=secure_boot(files),
        taint=int(taint) if taint.isdecimal() and len(taint) < 20 else None,
        container_root=CONTAINER_DRIVER if container else "",
        container_version=container[0].version if container else "",
        ready=_ready(files),
    )


def secure_boot(files: NodeFiles) -> bool | None:
    """Whether the firmware refuses what nobody has signed; None: it does not say."""
    variable = files.read(_SECURE_BOOT, 64).content
    return variable[-1] == 1 if variable else None


def driver_libraries(files: NodeFiles, root: str) -> str:
    """The version of NVIDIA's libraries below a root, as their files are named; empty: there are none."""
    return next((file.version for file in _libraries(files, root) if file.version), "")


def module_version(files: NodeFiles) -> str:
    """The version of the NVIDIA module that is loaded."""
    match = _VERSION.search(files.text("/proc/driver/nvidia/version", 4096))
    return match[1] if match else files.text("/sys/module/nvidia/version", 64)[:40]


def _kernels(files: NodeFiles) -> Iterator[Kernel]:
    for release in files.names("/lib/modules")[-_MOST_KERNELS:]:
        folder = f"/lib/modules/{release}"
        modules = files.text(f"{folder}/modules.dep", _DEPENDENCIES)
        if not modules and not files.there(f"{folder}/kernel"):
            continue  # what an uninstalled kernel left
        yield Kernel(release, has_headers(files, release), _MODULE_FILE.search(modules) is not None)


def has_headers(files: NodeFiles, release: str) -> bool:
    """Whether a module can be built for a kernel."""
    folder = f"/lib/modules/{release}"
    return (
        any(files.there(f"{folder}/{name}/Makefile") for name in ("build", "source"))
        or files.there(f"/usr/src/kernels/{release}/Makefile")
        or files.there(f"/usr/src/linux-headers-{release}/Makefile")
    )


def os_release(files: NodeFiles) -> dict[str, str]:
    """The variables of os-release, without quotes."""
    text = files.text("/etc/os-release", 65536) or files.text("/usr/lib/os-release", 65536)
    lines = (line.partition("=") for line in text.splitlines()[:200])
    return {key: value.strip("\"' ") for key, _, value in lines}


def _os_id(files: NodeFiles) -> str:
    variables = os_release(files)
    own, like = (variables.get(key, "").lower() for key in ("ID", "ID_LIKE"))
    return f"{own} {like}".strip()[:100]


def _blacklists(files: NodeFiles) -> Iterator[str]:
    for folder in _BLACKLIST_FOLDERS:
        for path in files.matching(f"{folder}/*.conf"):
            if _BLACKLIST.search(files.text(path)):
                yield path
    parameter = _PARAMETER.search(files.text("/proc/cmdline", 65536))
    if parameter:
        yield f"kernel parameter {parameter[1][:100]}"


def _ready(files: NodeFiles) -> Mapping[str, str] | None:
    content = files.read(_READY, 65536)
    if content.content is None:
        return None
    lines = (line.partition("=") for line in content.text.splitlines()[:100])
    return {key.strip(): value.strip().strip("\"'") for key, equals, value in lines if equals}


def device_node_facts(files: NodeFiles, numbers: Numbers = device_numbers) -> DeviceNodeFacts:
    """Nodes below /dev that are the NVIDIA driver's by name, and what numbers the kernel gave to whom."""
    names = [name for name in files.names("/dev") if name.startswith("nvidia")]
    paths = [f"/dev/{name}" for name in names if name not in ("nvidia-caps", "nvidia-caps-imex-channels")]
    paths += [f"{CAPABILITY_FOLDER}/{name}" for name in files.names(CAPABILITY_FOLDER)]
    nodes = {path: files.node(path, numbers) or NodeFile(path) for path in paths}
    listed = files.read("/proc/devices", 1 << 20)
    text = files.text("/proc/driver/nvidia-caps/mig-minors", 1 << 20)
    rows = (line.split() for line in text.splitlines())
    capabilities = {row[0]: int(row[1]) for row in rows if len(row) == 2 and _number(row[1])}
    majors = None if listed.content is None else dict(_majors(listed.text))
    return DeviceNodeFacts(nodes, majors, dict(_minors(files)), capabilities)


def _majors(text: str) -> Iterator[tuple[str, int]]:
    """Of character devices: lines like ` 195 nvidia` before those of block devices."""
    for line in text.partition("Block devices:")[0].splitlines():
        number, _, name = line.strip().partition(" ")
        if _number(number):
            yield name.strip(), int(number)


def _minors(files: NodeFiles) -> Iterator[tuple[str, int]]:
    for address in files.names("/proc/driver/nvidia/gpus")[:_MOST_GPUS]:
        text = files.text(f"/proc/driver/nvidia/gpus/{address}/information", 4096)
        for line in text.splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "Device Minor" and _number(value.strip()):
                yield address, int(value)


def _number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def library_facts(files: NodeFiles) -> LibraryFacts:
    """The driver's libraries on the host, or else where a container installed the driver or sees it."""
    libraries, root = tuple(_libraries(files, "/")), "/"
    for other in (CONTAINER_DRIVER, _GOOGLES_DRIVER, *AGENTS_DRIVER):
        if not libraries and (libraries := tuple(_libraries(files, other))):
            root = other
    cache = files.read(f"{root.rstrip('/')}/etc/ld.so.cache", _CACHE)
    listed = None if cache.content is None else cached_libraries(cache.content, LIBRARIES)
    if root == "/":
        libraries = (*libraries, *_elsewhere(files, listed or {}, {file.name for file in libraries}))
    trouble = cache.trouble or ("it is not a loader's cache" if listed is None and cache.content else "")
    return LibraryFacts(root, libraries, listed, trouble)


def _elsewhere(
    files: NodeFiles, listed: Mapping[str, tuple[str, ...]], names: set[str]
) -> Iterator[LibraryFile]:
    """Where only the loader's cache leads: systems have folders of their own."""
    for name, paths in listed.items():
        real = next((real for path in paths if (real := resolved_inside(files.root, path)) is not None), None)
        if name not in names and real is not None:
            version = _NUMBERED.search(real.name)
            yield LibraryFile(name, f"/{real.relative_to(files.root)}", version[1] if version else "")


def _libraries(files: NodeFiles, root: str) -> Iterator[LibraryFile]:
    """The first of each name, in the loader's order of folders."""
    place = files.place(root)
    for name in LIBRARIES if place is not None else ():
        assert place is not None
        real = _first(place, name)
        if real is not None:
            version = _NUMBERED.search(real.name)
            prefix = root.rstrip("/")
            yield LibraryFile(name, f"{prefix}/{real.relative_to(place)}", version[1] if version else "")


def _first(root: Path, name: str) -> Path | None:
    candidates = (resolved_inside(root, f"{folder}/{name}") for folder in LIBRARY_FOLDERS)
    return next((file for file in candidates if file is not None), None)
