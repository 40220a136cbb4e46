"""The state file of the CPU manager, which whoever may write into a node's folder may have written."""

from __future__ import annotations

import pytest

from tonnage.twin.kubelet.devices.cpu_manager import cpu_set


@pytest.mark.parametrize("text", ["0-99999999999", "99999999999", "0-1,70000"])
def test_more_cpus_than_a_machine_has_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="is more than 65536"):
        cpu_set(text)
