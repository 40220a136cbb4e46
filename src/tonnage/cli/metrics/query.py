"""`tonnage metrics query`: what a Prometheus answers, as a table."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from typing import Final

import click

from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, say
from tonnage.cli.terminal.tables import table
from tonnage.model.errors import ClusterError, Problem, words_of
from tonnage.model.json import JsonObject, JsonValue, parsed_json

_MOST_BYTES: Final = 64 << 20
_PATIENCE_S: Final = 30
_SHOWN_LABELS: Final = ("node", "gpu", "namespace", "pod", "container", "GPU_I_PROFILE", "Hostname")
"""Labels that are shown where a query keeps all of a device's."""
_MANY: Final = 6


@click.command(
    help="Send a query to Prometheus and print a row for each series.",
    epilog=examples(
        "tonnage metrics query DCGM_FI_DEV_GPU_TEMP --url http://127.0.0.1:9090",
        "tonnage metrics query up -o json --url http://127.0.0.1:9090",
    ),
)
@click.argument("expr")
@click.option(
    "--url",
    envvar="PROMETHEUS_URL",
    required=True,
    metavar="URL",
    help="Address of Prometheus [default: PROMETHEUS_URL].",
)
@common_options(output=("text", "json", "yaml"))
def command(common: Common, expr: str, url: str) -> int:
    """Exit status 1 when no series answers."""
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--url {url[:60]!r}: write http://… or https://…")
    series = [*_series(_answer_to(url.rstrip("/"), expr))]
    if common.output != "text":
        items: list[JsonValue] = [{"labels": {**labels}, "value": value} for labels, value in series]
        emit({"items": items}, common.output)
    elif series:
        names = _names([labels for labels, _ in series])
        rows = [(*(labels.get(name, "-") for name in names), value) for labels, value in series]
        say(table([*(name.upper() for name in names), "VALUE"], rows))
    else:
        say("No series matches.", err=True)
    return 0 if series else 1


def _answer_to(url: str, expr: str) -> JsonValue:
    """The answer's data. Raises ClusterError: Prometheus refuses, or does not answer."""
    address = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expr})}"
    try:
        with urllib.request.urlopen(address, timeout=_PATIENCE_S) as answer:  # noqa: S310 http(s) alone
            body = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        body = error.read(_MOST_BYTES + 1)
    except (OSError, HTTPException) as error:
        cause = getattr(error, "reason", error)  # urlopen wraps what the operating system said
        why = words_of(cause) if isinstance(cause, Exception) else str(cause)
        remedy = "check the address, and that Prometheus runs"
        raise ClusterError(Problem("Prometheus does not answer", url, why, remedy)) from None
    return data_of(body[:_MOST_BYTES], url)


def data_of(body: bytes, url: str) -> JsonValue:
    """The data in an answer of Prometheus. Raises ClusterError: it refuses, or it is something else."""
    try:
        parsed = parsed_json(body)
    except ValueError as error:
        raise _not_prometheus(url, str(error)) from None
    if not isinstance(parsed, dict):
        raise _not_prometheus(url, "it is not an object")
    if parsed.get("status") != "success":
        why = str(parsed.get("error", "it gives no reason"))
        raise ClusterError(Problem("Prometheus refuses the query", url, why, "correct the expression"))
    return parsed.get("data")


def _not_prometheus(url: str, why: str) -> ClusterError:
    return ClusterError(
        Problem("the server there is not Prometheus", url, why, "give the address of its web page")
    )


def _series(answer: JsonValue) -> Iterator[tuple[dict[str, str], str]]:
    """Labels and value of each series of a vector, or of the one number that a scalar is."""
    parts = answer if isinstance(answer, dict) else {}
    entries = parts.get("result")
    if not isinstance(entries, list):
        return
    if parts.get("resultType") in ("scalar", "string"):
        yield {}, str(entries[-1]) if entries else ""
        return
    for entry in entries:
        if isinstance(entry, dict):
            yield _labels(entry.get("metric")), _value(entry)


def _labels(metric: JsonValue) -> dict[str, str]:
    return {str(name): str(value) for name, value in metric.items()} if isinstance(metric, dict) else {}


def _value(entry: JsonObject) -> str:
    """The newest value; a range that was asked for has several."""
    pair = entry.get("value")
    if pair is None and isinstance(values := entry.get("values"), list) and values:
        pair = values[-1]
    return str(pair[1]) if isinstance(pair, list) and len(pair) > 1 else "-"


def _names(series: list[dict[str, str]]) -> list[str]:
    """Labels that are shown: all, or of many the telling ones."""
    names = [*dict.fromkeys(name for labels in series for name in labels)]
    if len(names) <= _MANY:
        return names
    return [name for name in _SHOWN_LABELS if name in names]
