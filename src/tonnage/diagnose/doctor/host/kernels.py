"""Kernels and the module that each needs: DRV-1, before the reboot and after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.doctor.finding import NodeFinding, finding
from tonnage.model.node.facts import DriverFacts
from tonnage.model.reasons.node.driver import KernelHeadersMissing, NextKernelWithoutDriver

_NUMBER: Final = re.compile(r"\d+")
_DEBIAN: Final = frozenset({"debian", "ubuntu"})
_SUSE: Final = frozenset({"suse", "sles", "opensuse"})


def kernel_findings(driver: DriverFacts) -> Iterator[NodeFinding]:
    """The running kernel has no module, and none can be built for it."""
    running = next((kernel for kernel in driver.kernels if kernel.release == driver.kernel), None)
    if not driver.kernel or (running is not None and (running.module or running.headers)):
        return
    if not driver.kernels:
        return  # a container's /lib: nothing can be seen of the host's kernels
    yield finding(
        KernelHeadersMissing(
            message=f"kernel headers for the running kernel {driver.kernel} are missing",
            remedy=headers_command(driver.os_id, driver.kernel),
            kernel=driver.kernel,
        ),
        where=f"/lib/modules/{driver.kernel}/build",
        why="NVIDIA's module is not built for this kernel, and without headers neither DKMS nor a driver"
        " container that cannot download them can build it",
    )


def next_kernel_findings(driver: DriverFacts) -> Iterator[NodeFinding]:
    """A newer kernel is installed, for which there will be no module after a reboot."""
    running = next((kernel for kernel in driver.kernels if kernel.release == driver.kernel), None)
    own = running is not None and running.headers and not driver.container_root
    if running is None or not (running.module or own):
        return  # the driver is a container's, which builds its module or brings it
    newer = [
        installed for installed in driver.kernels if order_of(installed.release) > order_of(driver.kernel)
    ]
    lacking = [installed for installed in newer if not installed.module and not installed.headers]
    if not lacking:
        return
    worst = max(lacking, key=lambda kernel: order_of(kernel.release))
    yield finding(
        NextKernelWithoutDriver(
            message=f"after a reboot into kernel {worst.release} there is no driver",
            remedy=headers_command(driver.os_id, worst.release),
            kernel=worst.release,
        ),
        where=f"/lib/modules/{worst.release}",
        why="it is installed and newer than the running one, but has neither NVIDIA's module nor headers",
    )


def order_of(release: str) -> tuple[int, ...]:
    """By which a kernel is newer.

    >>> order_of("6.8.0-51-generic") > order_of("6.8.0-9-generic")
    True
    """
    return tuple(int(number[:9]) for number in _NUMBER.findall(release))


def headers_command(os_id: str, release: str) -> str:
    """What installs the headers of a kernel, by the system's `ID` and `ID_LIKE`.

    >>> headers_command("ubuntu debian", "6.8.0-51-generic")
    'apt-get install linux-headers-6.8.0-51-generic'
    """
    words = set(os_id.split())
    if words & _DEBIAN or not words:
        return f"apt-get install linux-headers-{release}"
    if any(word.startswith(tuple(_SUSE)) for word in words):
        return f"zypper install 'kernel-default-devel = {release.removesuffix('-default')}'"
    return f"dnf install kernel-devel-{release} kernel-headers-{release}"
