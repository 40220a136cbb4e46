"""A page that prometheus_client serves: families that come on standard input, rendered at each scrape."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector


class Families(Collector):
    """The same rows each time, as new samples."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            fresh = Metric(family.name, family.documentation, family.type)
            for sample in family.samples:
                fresh.add_sample(sample.name, sample.labels, sample.value)
            yield fresh


def main() -> None:
    """Serve until killed."""
    registry = CollectorRegistry()
    registry.register(Families(list(text_string_to_metric_families(sys.stdin.read()))))
    start_http_server(int(sys.argv[1]), "127.0.0.1", registry)
    threading.Event().wait()


if __name__ == "__main__":
    main()
