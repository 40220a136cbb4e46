"""The catalogue of messages: texts of CUDA, NVML and several releases, and texts that only look alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.diagnose.messages import LONGEST_TEXT, matches_in, message_by_reason
from tonnage.model.catalog.messages import messages
from tonnage.model.reasons.messages.symptoms import CdiDeviceUnresolvable

CUDA = [
    (2, "out of memory", "cuda-out-of-memory"),
    (3, "initialization error", "cuda-system-error"),
    (35, "CUDA driver version is insufficient for CUDA runtime version", "cuda-driver-too-old"),
    (46, "CUDA-capable device(s) is/are busy or unavailable", "cuda-device-busy"),
    (100, "no CUDA-capable device is detected", "cuda-no-device"),
    (101, "invalid device ordinal", "cuda-no-device"),
    (209, "no kernel image is available for execution on the device", "cuda-no-kernel-image"),
    (214, "uncorrectable ECC error encountered", "gpu-memory-error"),
    (218, "a PTX JIT compilation failed", "cuda-ptx-too-new"),
    (220, "uncorrectable NVLink error detected during the execution", "gpu-memory-error"),
    (222, "the provided PTX was compiled with an unsupported toolchain.", "cuda-ptx-too-new"),
    (226, "Invalid access of peer GPU memory over nvlink or a hardware error", "gpu-memory-error"),
    (304, "OS call failed or operation not supported on this OS", "cuda-system-error"),
    (700, "an illegal memory access was encountered", "cuda-program-error"),
    (702, "the launch timed out and was terminated", "cuda-program-error"),
    (710, "device-side assert triggered", "cuda-program-error"),
    (714, "hardware stack error", "gpu-memory-error"),
    (716, "misaligned address", "cuda-program-error"),
    (719, "unspecified launch failure", "cuda-program-error"),
    (800, "operation not permitted", "cuda-system-error"),
    (801, "operation not supported", "cuda-system-error"),
    (802, "system not yet initialized", "cuda-not-initialized"),
    (803, "system has unsupported display driver / cuda driver combination", "cuda-compat-mismatch"),
    (804, "forward compatibility was attempted on non supported HW", "cuda-compat-mismatch"),
    (805, "MPS client failed to connect to the MPS control daemon or the MPS server", "mps-not-serving"),
    (807, "MPS server is not ready to accept new MPS client requests", "mps-not-serving"),
    (810, "the MPS client has been terminated by the server", "mps-not-serving"),
    (999, "unknown error", "cuda-system-error"),
]
"""cudaGetErrorString of CUDA 12.9: (number, text, code)."""

NVML = [
    ("Driver Not Loaded", "driver-not-loaded"),
    ("NVML Shared Library Not Found", "driver-library-missing"),
    ("GPU is lost", "gpu-lost"),
    ("GPU requires restart", "gpu-needs-reset"),
    ("RM has detected an NVML/RM version mismatch.", "library-version-mismatch"),
    ("The operating system has blocked the request.", "device-access-blocked"),
    ("Insufficient Permissions", "nvml-permission"),
    ("Corrupted infoROM", "inforom-corrupted"),
    ("Insufficient External Power", "gpu-power-cable"),
    ("Not Supported", "nvml-not-supported"),
]
"""The error table of nvidia-ml-py."""


def codes(text: str) -> list[str]:
    return [match.message.code for match in matches_in(text)]


@pytest.mark.parametrize(("number", "text", "code"), CUDA, ids=lambda value: str(value)[:40])
def test_an_error_of_cuda_is_known_by_its_text_and_by_its_number(number: int, text: str, code: str) -> None:
    assert codes(f"RuntimeError: CUDA error: {text}\n")[0] == code
    assert codes(text)[0] == code
    assert codes(f"cudaGetDeviceCount returned {number}") == [code]
    assert codes(f"CUDA error {number} at main.cu:12") == [code]


@pytest.mark.parametrize(("text", "code"), NVML)
def test_an_error_of_nvml_is_known(text: str, code: str) -> None:
    assert codes(f"nvml: {text}") == [code]
    assert codes(f"pynvml.NVMLError_X: NVML: {text}")[0] == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Allocate failed due to can't allocate unregistered device nvidia.com/gpu", "device-unregistered"),
        ("Allocate failed due to cannot allocate unregistered device amd.com/gpu", "device-unregistered"),
        (
            "invalid request: maximum request size for shared resources is 1; found 2",
            "shared-request-too-large",
        ),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "cuda-out-of-memory"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB", "cuda-out-of-memory"),
        (
            "plugin name gpu.nvidia.com not found in the list of registered DRA plugins",
            "dra-driver-unregistered",
        ),
        ("Unable to determine the device handle for gpu 0000:41:00.0: GPU is lost.", "gpu-lost"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
            "driver-not-answering",
        ),
        (
            "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
            "cuda-not-initialized",
        ),
        (
            "modifying OCI spec: failed to inject CDI devices: unresolvable CDI devices a/b=0: unknown",
            "cdi-device-unresolvable",
        ),
    ],
    ids=lambda text: text[:50],
)
def test_texts_of_other_releases_are_known(text: str, code: str) -> None:
    assert codes(text)[0] == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "epoch 3: loss 0.35, 802 images a second",
        "this mode is Not Supported by the tokenizer",
        "returned 35 rows",
        "fork: Cannot allocate memory, out of memory",
        "error 35",
        "unknown error in my own program",
        "the driver is loaded",
        "unsatisfied condition of the user: wants tea",
    ],
)
def test_what_only_looks_alike_is_not_heard(text: str) -> None:
    assert codes(text) == []


def test_what_a_message_names_is_a_fact() -> None:
    [heard] = matches_in("x\n[3.1] NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.\ny")
    assert heard.symptom.facts == {"device": "0000:41:00", "xid": "79"}
    assert heard.words == "[3.1] NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus."


def test_of_an_endless_log_the_end_is_looked_at_and_of_an_endless_line_what_stands_around() -> None:
    log = (
        "CUDA out of memory\n"
        + "x" * LONGEST_TEXT
        + " unresolvable CDI devices nvidia.com/gpu=7 "
        + "y" * 900
    )
    [heard] = matches_in(log)
    assert heard.message.code == CdiDeviceUnresolvable.code
    assert len(heard.words) <= 400
    assert "nvidia.com/gpu=7" in heard.words


@given(st.text(max_size=300))
def test_any_text_can_be_looked_at(text: str) -> None:
    assert len({match.message.code for match in matches_in(text)}) == len(matches_in(text))


def test_words_of_a_status_stand_for_messages() -> None:
    known = {
        reason: message.code
        for reason in ("OutOfnvidia.com/gpu", "ErrImagePull", "OOMKilled", "Evicted", "TopologyAffinityError")
        if (message := message_by_reason(reason)) is not None
    }
    assert list(known.values()) == [
        "kubelet-out-of-resource",
        "image-pull",
        "oom-killed",
        "evicted",
        "topology-affinity",
    ]
    assert message_by_reason("") is None
    assert message_by_reason("Completed") is None


def test_every_row_below_the_scheduler_that_has_a_text_is_in_the_catalogue() -> None:
    rows = {row for message in messages() for row in message.rows}
    assert set(range(41, 91)) - rows == set()
    for message in messages():
        assert message.patterns or message.reasons
        assert all((message.meaning, message.check, message.remedy, message.source))
