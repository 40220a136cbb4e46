"""Has the right kernel driver the GPUs, does it answer, and will it after the next boot?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.doctor.finding import Judgement, NodeFinding, counted, finding
from tonnage.diagnose.doctor.host.hardware import AMD, GAUDI, NVIDIA, addresses, of_vendor
from tonnage.diagnose.doctor.host.kernels import kernel_findings, next_kernel_findings
from tonnage.model.devices.inventory import FABRIC_COMPLETE
from tonnage.model.layer import NodeLayer
from tonnage.model.name_lists import listed
from tonnage.model.node.facts import DriverAnswer, DriverFacts, LibraryFacts, NodeFacts, PciGpu
from tonnage.model.reasons.messages.node_symptoms import DriverNotLoaded
from tonnage.model.reasons.node.driver import (
    DriverHangs,
    FabricNotReady,
    GpuNotDriven,
    GpuUnhealthy,
    NouveauBound,
    NouveauNotBlacklisted,
    SecureBootRefusesModule,
    TwoDrivers,
)

_LAYER: Final = NodeLayer.DRIVER
_PASSED_ON: Final = frozenset({"vfio-pci", "nvgrace_gpu_vfio_pci", "pciback"})
"""Drivers that give a GPU to a virtual machine: it is not for containers, on purpose."""
_BLACKLIST: Final = (
    "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' > /etc/modprobe.d/blacklist-nouveau.conf"
    " && (update-initramfs -u || dracut --force); then drain and reboot the node"
)
_OTHERS: Final = {AMD: "amdgpu", GAUDI: "habanalabs"}


def judge_driver(facts: NodeFacts, driver: DriverFacts) -> Judgement:
    """What keeps the driver from the GPUs. NVIDIA's in depth; of others whether the module is loaded."""
    nvidia = of_vendor(facts.hardware, NVIDIA)
    findings = [*_others(facts, driver)]
    if not nvidia:
        names = [module for module in _OTHERS.values() if module in driver.modules]
        return Judgement(_LAYER, tuple(findings), ", ".join(names))
    gpus = for_containers(facts)
    bound = tuple(gpu for gpu in gpus if gpu.driver == "nouveau")
    if bound:
        findings.append(_nouveau_bound(bound, gpus))
    if gpus and "nvidia" not in driver.modules:
        findings += [*kernel_findings(driver), *_not_loaded(driver, nouveau=bool(bound))]
    elif gpus:
        findings += [*_not_driven(gpus, facts.answer), *next_kernel_findings(driver)]
        findings += [*_answers(facts.answer), *_fabric(facts.answer)]
    findings += [*_two_drivers(driver, facts.libraries), *_unhealthy(facts)]
    return Judgement(_LAYER, tuple(findings), _summary(driver, len(nvidia) - len(gpus)))


def for_containers(facts: NodeFacts) -> tuple[PciGpu, ...]:
    """NVIDIA's GPUs on the bus but those that are given to virtual machines."""
    return tuple(gpu for gpu in of_vendor(facts.hardware, NVIDIA) if gpu.driver not in _PASSED_ON)


def loaded(facts: NodeFacts) -> bool:
    """Whether NVIDIA's module is in the kernel."""
    return facts.driver is not None and "nvidia" in facts.driver.modules


def _summary(driver: DriverFacts, passed_on: int) -> str:
    if "nvidia" not in driver.modules:
        return f"not loaded, kernel {driver.kernel or 'unknown'}"
    whose = f" from {driver.container_root}" if driver.container_version == driver.version != "" else ""
    passed_text = f", {passed_on} passed on to virtual machines" if passed_on else ""
    kernel = driver.kernel or "unknown"
    return f"nvidia {driver.version or 'of unknown version'}{whose}, kernel {kernel}{passed_text}"


def _others(facts: NodeFacts, driver: DriverFacts) -> Iterator[NodeFinding]:
    for vendor, module in _OTHERS.items():
        gpus = of_vendor(facts.hardware, vendor)
        if gpus and module not in driver.modules:
            yield finding(
                DriverNotLoaded(
                    subject="",
                    message=f"{module} is not loaded; it drives {counted(len(gpus), 'GPU')}",
                    remedy=f"modprobe {module} && dmesg | tail",
                    module=module,
                ),
                where=f"/sys/module/{module}",
                why=f"GPUs at {addresses(gpus)}",
            )


def _nouveau_bound(bound: tuple[PciGpu, ...], gpus: tuple[PciGpu, ...]) -> NodeFinding:
    return finding(
        NouveauBound(
            message=f"nouveau is bound to {len(bound)} of {counted(len(gpus), 'GPU')}",
            remedy=_BLACKLIST,
            bound=len(bound),
            gpus=len(gpus),
        ),
        where=f"/sys/bus/pci/devices/{bound[0].address}/driver",
        why="NVIDIA's driver cannot use a GPU that the kernel's own driver holds",
    )


def _not_loaded(driver: DriverFacts, *, nouveau: bool) -> Iterator[NodeFinding]:
    running = next((kernel for kernel in driver.kernels if kernel.release == driver.kernel), None)
    installed = running is not None and running.module
    # The cause before the symptom: where secure boot refuses the module, to load it again fails again.
    if installed and driver.secure_boot:
        yield finding(
            SecureBootRefusesModule(
                message="secure boot is on, and NVIDIA's module is installed but not loaded",
                remedy="modprobe nvidia; if it says 'Key was rejected': mokutil --import"
                " /var/lib/shim-signed/mok/MOK.der (or where your DKMS keeps its key), reboot, enrol it",
                kernel=driver.kernel,
            ),
            where="/sys/firmware/efi/efivars/SecureBoot-*",
            why="the kernel refuses a module without a signature that it trusts",
        )
    elif not nouveau:
        there = f"it is installed for {driver.kernel}" if installed else "it is not installed for this kernel"
        yield finding(
            DriverNotLoaded(
                subject="",
                message="NVIDIA's kernel module is not loaded",
                remedy="modprobe nvidia && dmesg | grep -i nvrm"
                if installed
                else "install the driver, or let the GPU operator's driver container do it;"
                " then modprobe nvidia",
                module="nvidia",
            ),
            where="/sys/module/nvidia",
            why=there
            if running is not None
            else f"what is installed for {driver.kernel or 'the running kernel'} cannot be seen",
        )
    if driver.nouveau_installed and not driver.blacklists and not nouveau:
        yield finding(
            NouveauNotBlacklisted(
                message="nouveau is not blacklisted",
                remedy=_BLACKLIST,
            ),
            where="/etc/modprobe.d",
            why="the kernel may load it before NVIDIA's driver, which then gets no GPU",
        )


def _not_driven(gpus: tuple[PciGpu, ...], answer: DriverAnswer) -> Iterator[NodeFinding]:
    unbound = tuple(gpu for gpu in gpus if gpu.driver not in ("nvidia", "nouveau"))
    inventory = answer.inventory
    problems = "; ".join(inventory.problems) if inventory is not None else ""
    shown = len(inventory.devices) if inventory is not None else len(gpus)
    shown = shown if answer.shown is None else answer.shown
    if unbound:
        yield finding(
            GpuNotDriven(
                message=f"{len(unbound)} of {counted(len(gpus), 'GPU')} have no NVIDIA driver:"
                f" {addresses(unbound)}",
                remedy="dmesg | grep -iE 'nvrm|xid'",
                gpus=len(gpus),
                driven=len(gpus) - len(unbound),
                addresses=tuple(gpu.address for gpu in unbound),
            ),
            where=f"/sys/bus/pci/devices/{unbound[0].address}/driver",
            why=f"bound to {unbound[0].driver or 'nothing'}: too old a driver for it, or a failed start",
        )
    elif shown < len(gpus):
        yield finding(
            GpuNotDriven(
                message=f"{len(gpus)} GPUs are on the bus, the driver shows {shown}",
                remedy="dmesg | grep -i xid; kubectl drain $(hostname) --ignore-daemonsets && reboot",
                gpus=len(gpus),
                driven=shown,
            ),
            where="NVML",
            why=problems or "the driver has dropped one",
        )


def _answers(answer: DriverAnswer) -> Iterator[NodeFinding]:
    if answer.hangs:
        hanging = (
            [problem for problem in answer.inventory.problems if "does not answer" in problem]
            if answer.inventory
            else []
        )
        yield finding(
            DriverHangs(
                message="the driver hangs"
                if not hanging
                else f"the driver hangs on {counted(len(hanging), 'GPU')}",
                remedy="dmesg | grep -iE 'xid|nvrm'; kubectl drain $(hostname) --ignore-daemonsets && reboot",
                gpus=len(hanging),
            ),
            where="NVML",
            why="; ".join(hanging) or answer.error,
        )


def _fabric(answer: DriverAnswer) -> Iterator[NodeFinding]:
    """GPUs behind NVSwitches that nobody has set up: CUDA answers `system not yet initialized` there."""
    devices = answer.inventory.devices if answer.inventory is not None else ()
    waiting = [device for device in devices if device.fabric not in ("", FABRIC_COMPLETE)]
    if not waiting:
        return
    state = next((device.fabric for device in waiting if device.fabric == "failed"), waiting[0].fabric)
    indices = listed([str(device.index) for device in waiting])
    yield finding(
        FabricNotReady(
            message=f"the NVLink fabric is not set up for GPUs {indices}: {state}",
            remedy="systemctl status nvidia-fabricmanager; install it in the driver's version, and start it",
            gpus=tuple(device.uuid for device in waiting),
            state=state,
        ),
        where="NVML",
        why="until Fabric Manager has set up the NVSwitches of the board, no CUDA program starts on it",
    )


def _two_drivers(driver: DriverFacts, libraries: LibraryFacts | None) -> Iterator[NodeFinding]:
    """DRV-5: a host's driver and a container's, and what the operator was told about whose it is."""
    host = next((file.version for file in libraries.files if file.version), "") if libraries else ""
    host = host if libraries is not None and libraries.root == "/" else ""
    ready = driver.ready
    says_host = ready.get("IS_HOST_DRIVER", "").lower() if ready is not None else ""
    # What is there before what the operator was told of it, which two drivers make wrong in any case.
    if host and driver.container_version and host != driver.container_version:
        loaded_one = f"; {driver.version} is loaded" if driver.version else ""
        yield finding(
            TwoDrivers(
                message=f"two drivers: {host} on the host, {driver.container_version} in"
                f" {driver.container_root}",
                remedy="keep one owner: remove the host's packages (apt-get purge 'nvidia-*' 'libnvidia-*'),"
                " or set driver.enabled=false in the ClusterPolicy",
                host=host,
                container=driver.container_version,
                loaded=driver.version,
            ),
            where=driver.container_root,
            why=f"only one can be loaded, and containers may get the other's libraries{loaded_one}",
        )
    elif (says_host == "true" and not host and driver.container_version) or (
        says_host == "false" and host and not driver.container_version
    ):
        owner = "host's" if says_host == "true" else "container's"
        yield finding(
            TwoDrivers(
                message=f"the GPU operator relies on the {owner} driver, which is missing",
                remedy="kubectl delete pod -n gpu-operator -l app=nvidia-operator-validator"
                " --field-selector spec.nodeName=$(hostname)",
                host=host,
                container=driver.container_version,
                loaded=driver.version,
            ),
            where="/run/nvidia/validations/driver-ready",
            why=f"IS_HOST_DRIVER={says_host}, but "
            + (
                f"the driver is in {driver.container_root}"
                if driver.container_version
                else "the host has one"
            ),
        )


def _unhealthy(facts: NodeFacts) -> Iterator[NodeFinding]:
    """What the node's agent says of its devices."""
    conditions = facts.cluster.conditions if facts.cluster is not None else {}
    status, message = conditions.get("GPUsHealthy", ("", ""))
    if status == "False":
        yield finding(
            GpuUnhealthy(
                message=message.splitlines()[0][:300] if message else "GPUs are unhealthy",
                remedy="do what the reason asks for: reset, reboot or replacement (how-to: handle a faulty"
                " GPU)",
                condition=message,
            ),
            where=f"condition GPUsHealthy of node {facts.node}",
            why="new containers get no unhealthy device; running pods keep theirs",
        )
