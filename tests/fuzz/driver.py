"""What a driver says: the kernel's numbers of MIG capabilities, and every answer of NVML."""

from __future__ import annotations

import ctypes
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final, cast

import pynvml

from fuzz.documents import check_plan
from support.device_contract import READ
from tonnage.adapters.cdi.device_nodes import read_device_nodes
from tonnage.adapters.vendors.nvml_links import read_links
from tonnage.adapters.vendors.nvml_reader import NvmlReader
from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.decide.node.labels.gpu import gpu_labels
from tonnage.decide.node.preference.links import link_matrix
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.node.machine import Machine
from tonnage.model.node.plugin_settings import MigStrategy

_CODES: Final = (1, 2, 3, 4, 6, 9, 10, 12, 13, 15, 16, 17, 19, 25, 26, 999)
MOST_GPUS: Final = 4
NOWHERE: Final = Path("/nowhere")


@contextmanager
def mig_minors() -> Iterator[Callable[[bytes], None]]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        file = Path(folder) / "proc/driver/nvidia-caps/mig-minors"
        file.parent.mkdir(parents=True)

        def target(data: bytes) -> None:
            file.write_bytes(data)
            found = read_device_nodes(Path(folder))
            assert all(name and 0 <= minor < 10**9 for name, minor in found.capabilities.items())

        yield target


class Oracle:
    """Numbers and texts out of the input; zeros and nothing when it is used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self, below: int) -> int:
        head, self._data = self._data[:1], self._data[1:]
        return head[0] % below if head else 0

    def wide(self) -> int:
        head, self._data = self._data[:8].ljust(8, b"\0"), self._data[8:]
        return int(struct.unpack("<q", head)[0])

    def bytes(self) -> bytes:
        size = self.number(64)
        head, self._data = self._data[:size], self._data[size:]
        return head

    @property
    def empty(self) -> bool:
        return not self._data


class OddDriver:
    """nvidia-ml-py whose every function answers with what it could, or with any of NVML's errors."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name.startswith("nvmlEventType"):
            return getattr(pynvml, name)
        return lambda *arguments, **_: self._answer(name, arguments)

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if not self._oracle.empty and self._oracle.number(8) == 7:
            raise pynvml.NVMLError(_CODES[self._oracle.number(len(_CODES))])
        for part, answer in _ANSWERS.items():
            if part in name:
                return answer(self._oracle, arguments)
        return self._oracle.wide()


def _text(oracle: Oracle, _arguments: Any) -> str:
    return oracle.bytes().partition(b"\0")[0].decode()  # as the bindings do: it may not be UTF-8


def _uuid(oracle: Oracle, arguments: Any) -> str:
    """Mostly one that may be, and perhaps another device's."""
    if oracle.number(5) == 4:
        return _text(oracle, arguments)
    return f"{('GPU', 'MIG')[oracle.number(2)]}-{oracle.number(32)}"


def _structure(*names: str) -> Callable[[Oracle, Any], Any]:
    return lambda oracle, _: SimpleNamespace(**{name: oracle.wide() for name in names})


def _fields(oracle: Oracle, arguments: tuple[Any, ...]) -> list[Any]:
    answers = []
    for _ in arguments[1]:
        answer = pynvml.c_nvmlFieldValue_t()
        content = struct.pack("<q", oracle.wide())
        answer.nvmlReturn, answer.valueType = oracle.number(2), oracle.number(8)
        ctypes.memmove(ctypes.addressof(answer.value), content, len(content))
        answers.append(answer)
    return answers


def _pci(oracle: Oracle, arguments: Any) -> Any:
    return SimpleNamespace(busId=_text(oracle, arguments))


def _fabric(oracle: Oracle, arguments: tuple[Any, ...]) -> None:
    content = oracle.bytes()
    info = arguments[1]._obj
    ctypes.memmove(ctypes.addressof(info), content, min(len(content), ctypes.sizeof(info)))


def _licenses(oracle: Oracle, _arguments: Any) -> Any:
    features = [SimpleNamespace(featureState=oracle.number(3)) for _ in range(3)]
    return SimpleNamespace(licensableFeaturesCount=oracle.number(8), gridLicensableFeatures=features)


def _metrics(oracle: Oracle, arguments: tuple[Any, ...]) -> Any:
    request = arguments[0]
    for place in range(request.numMetrics):
        request.metrics[place].nvmlReturn = oracle.number(2)
        content = struct.pack("<q", oracle.wide())
        request.metrics[place].value = struct.unpack("<d", content)[0]
    return request


_ANSWERS: Final[dict[str, Callable[[Oracle, Any], Any]]] = {
    "MaxMigDeviceCount": lambda oracle, _: oracle.number(4),
    "GetCount": lambda oracle, _: 1 + oracle.number(MOST_GPUS),
    "HandleBy": lambda oracle, _: oracle.number(16),
    "GetUUID": _uuid,
    "GetName": _text,
    "CudaDriverVersion": lambda oracle, _: oracle.wide(),
    "DriverVersion": _text,
    "CudaComputeCapability": lambda oracle, _: (oracle.number(256), oracle.number(256)),
    "MigMode": lambda oracle, _: (oracle.number(3), oracle.number(3)),
    "EccMode": lambda oracle, _: (oracle.number(3), oracle.number(3)),
    "BAR1MemoryInfo": _structure("bar1Total", "bar1Used", "bar1Free"),
    "MemoryInfo": _structure("total", "used", "free", "reserved"),
    "RetiredPages": lambda oracle, _: [0] * oracle.number(16),
    "RowRemapperHistogram": _structure("max", "high", "partial", "low", "none"),
    "GridLicensableFeatures": _licenses,
    "SramEcc": _fabric,
    "NVMLVersion": _text,
    "Serial": _text,
    "Vbios": _text,
    "ConfigurationChecksum": lambda oracle, _: oracle.wide(),
    "Inforom": _text,
    "coderUtilization": lambda oracle, _: [oracle.wide(), oracle.wide()],
    "GpmSampleAlloc": lambda _oracle, _: pynvml.c_nvmlGpmSample_t(),
    "SampleGet": lambda _oracle, arguments: arguments[-1],
    "GpmMetricsGet": _metrics,
    "PciInfo": _pci,
    "Attributes": _structure(
        *("multiprocessorCount", "sharedCopyEngineCount", "sharedDecoderCount", "sharedEncoderCount"),
        *("sharedJpegCount", "sharedOfaCount", "gpuInstanceSliceCount", "computeInstanceSliceCount"),
        *("memorySizeMB",),
    ),
    "GpuInstanceProfileInfo": _structure(
        *("id", "memorySizeMB", "multiprocessorCount", "copyEngineCount"),
        *("decoderCount", "encoderCount", "jpegCount", "ofaCount"),
    ),
    "GpuInstanceGetInfo": lambda oracle, _: SimpleNamespace(
        placement=_structure("start", "size")(oracle, ()), profileId=19
    ),
    "FieldValues": _fields,
    "FabricInfo": _fabric,
    "Utilization": _structure("gpu", "memory"),
    "RunningProcesses": lambda _oracle, _: [],
    "GpmQuery": _structure("isSupportedDevice"),
    "EventSetWait": _structure("device", "eventType", "eventData", "gpuInstanceId", "computeInstanceId"),
}


class OddSession(NvmlSession):
    """A session over the odd driver, opened anew whenever it is asked to be."""

    def __init__(self, bindings: OddDriver) -> None:
        super().__init__(NOWHERE, None)
        self._error = pynvml.NVMLError
        self._bindings = cast("ModuleType", bindings)

    def open(self) -> ModuleType:
        self.number = self.number or 1
        return self._bindings

    def close(self) -> None:
        self.number += 1


def nvml(data: bytes) -> None:
    session = OddSession(OddDriver(Oracle(data)))
    after_s = [0.0]
    reader = NvmlReader(session, NOWHERE, lambda: after_s[0])
    with suppress(OSError, pynvml.NVMLError):
        scan = reader.scan(_step)
        inventory = Inventory(scan.devices, scan.driver_version, scan.cuda_version, vitals=scan.vitals)
        link_matrix(inventory.devices, read_links(session, _step))
        uuids = {device.uuid for device in inventory.devices}
        uuids |= {mig.uuid for device in inventory.devices for mig in device.migs}
        for strategy in MigStrategy:
            config = PluginConfig(mig_strategy=strategy)
            plan = share(inventory, config)
            check_plan(plan, uuids)
            gpu_labels(inventory, config, plan, Machine())
        for _ in range(2):  # activity is what happened since the sample before
            reader.sample(READ, _step)
            after_s[0] += 1
        reader.wait(0)


def _step(subject: int, *, times: float = 1.0) -> None: ...
