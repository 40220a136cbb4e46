"""Parts of GPUs as HAMi counts them: its notes, and its words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.cluster.hami import (
    ALLOCATED,
    REGISTER,
    HamiRequest,
    SharedGpu,
    devices_of,
    refused_by,
    refused_on,
)
from tonnage.model.kubernetes.cluster import Pod

GPU = SharedGpu("GPU-a", 10, 32768, 100, "NVIDIA-Tesla V100-PCIE-32GB")
COLONS = "GPU-a,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
_LISTED = {"id": "GPU-a", "count": 10, "devmem": 32768, "devcore": 100, "type": GPU.type, "health": True}
JSON = json.dumps([_LISTED])


@pytest.mark.parametrize("text", [COLONS, COLONS.removesuffix(":") + ",0,hami-core:", JSON])
def test_every_form_of_the_list_is_read(text: str) -> None:
    assert devices_of({REGISTER: text}, ()) == (GPU,)


@pytest.mark.parametrize("text", ["", "x", ":", "GPU-a,1,2:", "[1]", "[{", '{"id":1}', "a,b,c,d,e,f,g"])
def test_what_cannot_be_read_is_no_list(text: str) -> None:
    assert devices_of({REGISTER: text}, ()) is None


@given(st.text(st.sampled_from('GPU-a,:;[]{}"0123456789'), max_size=60))
def test_no_notes_are_an_error(text: str) -> None:
    devices_of({REGISTER: text}, ())
    devices_of({REGISTER: COLONS}, (Pod("p", hami={ALLOCATED: text}),))


def test_what_pods_have_is_taken_from_each_gpu() -> None:
    pods = (
        Pod("p", hami={ALLOCATED: "GPU-a,NVIDIA,1000,30:;GPU-a,NVIDIA,500,10:;"}),
        Pod("q", hami={ALLOCATED: "GPU-b,NVIDIA,7,7:;"}),
        Pod("r"),
    )
    [gpu] = devices_of({REGISTER: COLONS}, pods) or ()
    assert (gpu.used, gpu.used_mib, gpu.used_cores, gpu.left_mib) == (2, 1500, 40, 31268)


@pytest.mark.parametrize(
    ("gpu", "part", "wishes", "word"),
    [
        (GPU, HamiRequest(1), {}, ""),
        (replace(GPU, healthy=False), HamiRequest(1), {}, "CardNotHealth"),
        (GPU, HamiRequest(1), {"nvidia.com/use-gputype": "a100,H100"}, "CardTypeMismatch"),
        (GPU, HamiRequest(1), {"nvidia.com/use-gputype": "a100,v100"}, ""),
        (GPU, HamiRequest(1), {"nvidia.com/nouse-gputype": "v100"}, "CardTypeMismatch"),
        (GPU, HamiRequest(1), {"nvidia.com/use-gpuuuid": "GPU-b"}, "CardUuidMismatch"),
        (GPU, HamiRequest(1), {"nvidia.com/nouse-gpuuuid": "GPU-a"}, "CardUuidMismatch"),
        (replace(GPU, used=10), HamiRequest(1, 1), {}, "CardTimeSlicingExhausted"),
        (replace(GPU, used=1, used_mib=1), HamiRequest(1), {}, "CardInsufficientMemory"),
        (replace(GPU, used=1, used_mib=1), HamiRequest(1, percentage=99), {}, ""),
        (replace(GPU, used=1, used_cores=60), HamiRequest(1, 1, cores=50), {}, "CardInsufficientCore"),
        (replace(GPU, used=1), HamiRequest(1, 1, cores=100), {}, "ExclusiveDeviceAllocateConflict"),
        (replace(GPU, used=1, used_cores=100), HamiRequest(1, 1), {}, "CardComputeUnitsExhausted"),
    ],
)
def test_the_word_for_a_gpu(gpu: SharedGpu, part: HamiRequest, wishes: dict[str, str], word: str) -> None:
    assert refused_by(gpu, part, wishes) == word


def test_the_words_for_a_node() -> None:
    full = replace(GPU, used=1, used_mib=32000)
    assert refused_on((GPU, full), HamiRequest(1, 1000), {}) == {}
    assert refused_on((GPU,), HamiRequest(2, 1000), {}) == {"NodeInsufficientDevice": 1}
    assert refused_on((GPU, full), HamiRequest(2, 1000), {}) == {
        "CardInsufficientMemory": 1,
        "AllocatedCardsInsufficientRequest": 1,
    }
