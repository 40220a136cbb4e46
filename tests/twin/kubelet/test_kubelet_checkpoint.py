"""The device manager's checkpoint in the kubelet's own format."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.twin.kubelet.devices.checkpoint import (
    Checkpoint,
    CheckpointEntry,
    decode_checkpoint,
    encode_checkpoint,
)

# A checkpoint that a real kubelet wrote, its checksum included.
RECORDED = (
    b'{"Data":{"PodDeviceEntries":[{"PodUID":"bf52b2cd-b611-4e79-86b1-280b283185c3","ContainerName":"check",'
    b'"ResourceName":"nvidia.com/gpu","DeviceIDs":{"-1":["tegra"]},'
    b'"AllocResp":"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh"}],'
    b'"RegisteredDevices":{"nvidia.com/gpu":["tegra"]}},"Checksum":3660592824}'
)


def test_a_real_kubelets_checkpoint_is_read_and_written_back_byte_for_byte() -> None:
    checkpoint = decode_checkpoint(RECORDED)
    assert checkpoint.entries[0].ids == {"tegra"}
    assert encode_checkpoint(checkpoint) == RECORDED


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param(b"3660592824", b"3660592825", "checkpoint is corrupted", id="another checksum"),
        pytest.param(b'"tegra"', b'"other"', "checkpoint is corrupted", id="another device"),
        pytest.param(b'"Checksum"', b'"Checksums"', "unknown field", id="an unknown field"),
        pytest.param(b"}", b"", "", id="cut off"),
    ],
)
def test_a_damaged_checkpoint_is_refused(old: bytes, new: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words or None):
        decode_checkpoint(RECORDED.replace(old, new))


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(
    entries=st.lists(
        st.builds(
            CheckpointEntry,
            NAMES,
            NAMES,
            NAMES,
            st.dictionaries(st.integers(-1, 7), st.lists(NAMES, max_size=3).map(tuple), max_size=3),
            st.binary(max_size=20),
        ),
        max_size=3,
    ),
    registered=st.dictionaries(NAMES, st.lists(NAMES, max_size=3), max_size=3),
)
def test_what_is_written_is_read_back(
    entries: list[CheckpointEntry], registered: dict[str, list[str]]
) -> None:
    checkpoint = Checkpoint(tuple(entries), registered)
    content = encode_checkpoint(checkpoint)
    assert decode_checkpoint(content) == checkpoint
    assert set(json.loads(content)) == {"Data", "Checksum"}
