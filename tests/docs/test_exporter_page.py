"""The page of every device metric is as the catalogue and the exporter's own families have it."""

from __future__ import annotations

import pytest

from scripts.generate_exporter_metrics import PAGE, own_families, page
from tonnage.decide.node.exporter.metric_text import shown_name
from tonnage.documents.exporter_counters import counter_numbers

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert page() == TEXT, "python -m scripts.generate_exporter_metrics"


@pytest.mark.parametrize("name", [*counter_numbers(), *map(shown_name, own_families())])
def test_every_metric_stands_on_it(name: str) -> None:
    assert f"`{name}`" in TEXT
