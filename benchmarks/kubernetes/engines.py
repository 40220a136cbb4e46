"""The same fleet and lab on the twin and on a genuine control plane."""

from __future__ import annotations

from benchmarks import cluster


def measure(rounds: int) -> dict[str, list[float]]:
    """Start, memory and lab of both engines, in turns, so that a busy moment of the machine meets both."""
    figures: dict[str, list[float]] = {}
    for _ in range(rounds):
        for engine in ("twin", "kubernetes"):
            for figure, values in cluster.measure_engine(engine, 1).items():
                name = f"{engine}: {figure.partition(' (wanted')[0]}"
                figures.setdefault(name, []).extend(values)
    return dict(sorted(figures.items(), key=lambda row: row[0].partition(": ")[2]))
