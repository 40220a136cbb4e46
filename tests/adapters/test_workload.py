"""The workload that tries a device: what it finds in its container."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tonnage.adapters.workload import add_vectors, judged
from tonnage.model.errors import HardwareError


def without_library(_name: str) -> Any:
    raise OSError("libcuda.so.1: cannot open shared object file")


@pytest.mark.parametrize(
    ("nodes", "visible", "code", "words"),
    [
        pytest.param([], "", 1, "the container got no device", id="nothing was injected"),
        pytest.param(["nvidia0"], "", 3, "injection only: nvidia0; ", id="a device without the library"),
        pytest.param([], "GPU-1", 3, "injection only: GPU-1; ", id="a name without the library"),
    ],
)
def test_without_the_driver_s_library(
    monkeypatch: pytest.MonkeyPatch, nodes: list[str], visible: str, code: int, words: str
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", without_library)
    found, text = judged(nodes, visible)
    assert found == code
    assert text.startswith(words)


class Driver:
    """A driver that refuses one call."""

    def __init__(self, refused: str, code: int = 999) -> None:
        self._refused = refused
        self._code = code

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            if name == "cuGetErrorName":
                arguments[1]._obj.value = b"CUDA_ERROR_UNKNOWN"
            if name == "cuDeviceGetCount":
                arguments[0]._obj.value = 1
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
