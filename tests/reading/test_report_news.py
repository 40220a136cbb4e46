"""What of a report is news: all but that its agent lives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.reading.gpu_status import is_news
from tonnage.wire.objects import NodeGPUStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def report(after_s: float = 0.0, **status: Any) -> NodeGPUStatus:
    beat = timestamp(NOW + timedelta(seconds=after_s))
    return NodeGPUStatus(status={"heartbeatAt": beat, "devices": [{"uuid": "GPU-1"}], **status})


@pytest.mark.parametrize(
    ("before", "after", "news"),
    [
        pytest.param(None, report(), True, id="a report that comes"),
        pytest.param(report(), None, True, id="a report that goes"),
        pytest.param(report(), report(60), False, id="a heartbeat"),
        pytest.param(report(), report(60, updatedAt="x"), False, id="a write of the same"),
        pytest.param(report(), report(600), True, id="a heartbeat after a silence"),
        pytest.param(report(), report(60, devices=[]), True, id="a device that is gone"),
        pytest.param(report(), report(60, problems=["x"]), True, id="a problem"),
        pytest.param(NodeGPUStatus(status={}), report(), True, id="the first that it says"),
    ],
)
def test_what_is_news(before: NodeGPUStatus | None, after: NodeGPUStatus | None, news: bool) -> None:
    assert is_news(before, after) is news
