"""The workload that tries a device: what it finds in its container."""

from __future__ import annotations

import ctypes
from typing import Any
from uuid import UUID

import pytest

from tonnage.adapters.workload import add_vectors, judged
from tonnage.model.errors import HardwareError


def without_library(_name: str) -> Any:
    raise OSError("libcuda.so.1: cannot open shared object file")


GPU = "GPU-8f2e4c1a-0b3d-4e5f-8a7b-6c5d4e3f2a1b"


@pytest.mark.parametrize(
    ("nodes", "visible", "code", "words"),
    [
        pytest.param([], "", 1, "the container got no device: ", id="nothing was injected"),
        pytest.param(["nvidia0"], "", 3, "injection only: nvidia0; ", id="a device without the library"),
        pytest.param([], GPU, 1, "the container got no device: ", id="a name that no runtime acted on"),
        pytest.param(
            ["nvidia0", "nvidia1"], GPU, 1, "the container asked for one device and got nvidia0, ", id="two"
        ),
    ],
)
def test_without_the_driver_s_library(
    monkeypatch: pytest.MonkeyPatch, nodes: list[str], visible: str, code: int, words: str
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", without_library)
    found, text = judged(nodes, visible)
    assert found == code
    assert text.startswith(words)
    assert (f"NVIDIA_VISIBLE_DEVICES is {visible}" in text) == (visible != "" and not nodes)


class Driver:
    """A driver that refuses one call."""

    def __init__(self, refused: str, code: int = 999, *, uuid: str = "") -> None:
        self._refused = refused
        self._code = code
        self._uuid = uuid

    def __getattr__(self, name: str) -> Any:
        if name == "cuDeviceGetUuid_v2" and not self._uuid:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            if name == "cuGetErrorName":
                arguments[1]._obj.value = b"CUDA_ERROR_UNKNOWN"
            if name == "cuDeviceGetCount":
                arguments[0]._obj.value = 1
            if name == "cuDeviceGetUuid_v2":
                arguments[0]._obj[:] = UUID(self._uuid).bytes
            return self._code if name == self._refused else 0

        return call


@pytest.mark.parametrize("call", ["cuInit", "cuModuleLoadData", "cuLaunchKernel", "cuCtxSynchronize"])
def test_what_the_driver_refuses_is_named(call: str) -> None:
    driver: Any = Driver(call)
    with pytest.raises(HardwareError, match=f"{call}: CUDA_ERROR_UNKNOWN"):
        add_vectors(driver)


def test_a_board_whose_fabric_is_not_set_up_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: Driver("cuInit", 802))
    code, text = judged(["nvidia0"], "")
    assert code == 1
    assert "Fabric Manager" in text
    assert "systemctl status nvidia-fabricmanager" in text


def test_a_device_that_adds_wrongly_is_found() -> None:
    driver: Any = Driver("")
    with pytest.raises(HardwareError, match="the device adds wrongly: element 0 is 0"):
        add_vectors(driver)


@pytest.mark.parametrize("kind", ["GPU", "MIG"])
def test_another_device_than_the_runtime_was_asked_for_is_found(kind: str) -> None:
    """A driver that does not say its UUID, or a name that is none, is believed."""
    uuid = GPU.partition("-")[2]
    other: Any = Driver("", uuid=uuid.replace("8", "9"))
    with pytest.raises(HardwareError, match=f"was to have {kind}-{uuid} and has 9f2e4c1a"):
        add_vectors(other, f"{kind}-{uuid}")
    same: Any = Driver("", uuid=uuid)
    silent: Any = Driver("")
    for library, visible in (
        (same, f"{kind}-{uuid}"),
        (silent, f"{kind}-{uuid}"),
        (other, "all"),
        (other, ""),
    ):
        with pytest.raises(HardwareError, match="adds wrongly"):
            add_vectors(library, visible)
