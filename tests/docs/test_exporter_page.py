"""The page of every device metric is as the catalogue and the exporter's own families have it."""

from __future__ import annotations

import re

from scripts.generate_exporter_metrics import (
    PAGE,
    families_of_agent,
    families_of_claims,
    families_of_cluster,
    families_of_controller,
    name_of,
    own_families,
    page,
)
from tonnage.documents.exporter_counters import counter_numbers

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert page() == TEXT, "python -m scripts.generate_exporter_metrics"


FAMILIES = (
    *own_families(),
    *families_of_cluster(),
    *families_of_controller(),
    *families_of_agent(),
    *families_of_claims(),
)


def test_every_metric_stands_on_it() -> None:
    names = {*counter_numbers(), *map(name_of, FAMILIES)}
    assert names - set(re.findall(r"`(\w+)`", TEXT)) == set()
