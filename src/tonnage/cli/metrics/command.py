"""`tonnage metrics`: metrics of a cluster, and what Prometheus needs to find and judge those of its nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from tonnage.cli.awaited import awaited
from tonnage.cli.cluster import connected, snapshot_of
from tonnage.cli.metrics.query import command as query
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, lines, say
from tonnage.model.errors import Problem

if TYPE_CHECKING:
    from tonnage.adapters.http.address import Address
    from tonnage.model.json import JsonValue

_LEAST_S: Final = 5
_MOST_S: Final = 3600
_INTERVAL_S: Final = 30


def _address(_: click.Context, __: click.Parameter, value: str | None) -> Address | None:
    from tonnage.adapters.http.address import parse_address

    if value is None:
        return None
    address = parse_address(value)
    if isinstance(address, Problem):
        raise click.BadParameter(f"{value[:60]!r}: {address.why}; {address.remedy}")
    return address


_ADDRESS: Final = click.option(
    "--address",
    metavar="IP:PORT",
    callback=_address,
    help="Serve at this address (:PORT for every address).",
)


def _interval_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    seconds = click.IntRange(_LEAST_S, _MOST_S)
    return click.option(
        "--interval", type=seconds, default=_INTERVAL_S, show_default=True, metavar="SECONDS", help=text
    )


@click.group(help="Serve metrics of the cluster; print scrape settings, targets and alerts for Prometheus.")
def command() -> None:
    pass


command.add_command(query, "query")


@command.command(
    "cluster",
    help="Serve metrics of the whole cluster: which pods wait for GPUs, why and how long, quotas, and what "
    "each node has and has given out. One replica is enough.",
    epilog=examples(
        "tonnage metrics cluster --once",
        "tonnage metrics cluster --address :9411            # /metrics and /healthz",
        "tonnage metrics cluster --once --snapshot file.gz",
    ),
)
@_ADDRESS
@click.option("--once", is_flag=True, help="Print the metrics and end.")
@_interval_option("How often to read the cluster.")
@common_options(cluster=True, snapshot=True)
def cluster(common: Common, address: Address | None, once: bool, interval: int) -> int:
    if once == (address is not None):
        raise click.UsageError("write --once to print the metrics, or --address to serve them")
    if address is not None and common.snapshot is not None:
        raise click.UsageError("--snapshot needs --once: a file does not change")
    from tonnage.adapters.http.metrics_page import families_text
    from tonnage.cli.metrics.serving import serve_cluster
    from tonnage.diagnose.monitoring.cluster_families import cluster_families

    if address is not None:
        return asyncio.run(serve_cluster(common, address, interval))
    snapshot = awaited(snapshot_of(common, "metrics cluster"))
    version = common.server_version or ""
    text = families_text(cluster_families(snapshot, version=version))
    say(lines(text.removesuffix("\n").split("\n")))
    return 0


@command.command(
    "targets",
    help="List what Prometheus can scrape, in the format of its HTTP service discovery: exporters of device "
    "metrics, agents, and the metrics of the cluster. On the embedded cluster these are loopback addresses.",
    epilog=examples(
        "tonnage metrics targets",
        "tonnage metrics targets --address 127.0.0.1:9412   # for http_sd_configs",
    ),
)
@_ADDRESS
@common_options(cluster=True, namespace=True)
def targets(common: Common, address: Address | None) -> int:
    from tonnage.cli.metrics.serving import read_targets, serve_targets

    if address is not None:
        return asyncio.run(serve_targets(common, address))

    async def once() -> list[JsonValue]:
        async with connected(common) as api:
            return await read_targets(api, common.namespace)

    emit(asyncio.run(once()), "json")
    return 0


@command.command(
    "scrape-config",
    help="Print the section scrape_configs for a Prometheus that runs without the operator.",
    epilog=examples(
        "tonnage metrics scrape-config                      # Prometheus in the cluster",
        "tonnage metrics scrape-config --targets-url http://127.0.0.1:9412/",
    ),
)
@click.option(
    "--targets-url",
    default="",
    metavar="URL",
    help="Take targets from here, where tonnage metrics targets serves them, not from the API server.",
)
@click.option("-n", "--namespace", default="", metavar="NAME", help="Look only in this namespace.")
@_interval_option("How often to scrape.")
@click.option(
    "--ca-file", default="", metavar="FILE", help="Scrape over TLS, and trust this certificate authority."
)
@click.option("--user", default="", metavar="NAME", help="Log in as this user.")
@click.option("--password-file", default="", metavar="FILE", help="File with that user's password.")
def scrape_config_command(
    targets_url: str, namespace: str, interval: int, ca_file: str, user: str, password_file: str
) -> int:
    from tonnage.diagnose.monitoring.scraping import ScrapeOptions, scrape_config

    if bool(user) != bool(password_file):
        raise click.UsageError("--user and --password-file need each other")
    _web_address("--targets-url", targets_url)
    options = ScrapeOptions(targets_url, namespace, interval, ca_file, user, password_file)
    emit(scrape_config(options), "yaml")
    return 0


@command.command(
    "rules",
    help="Print the alerts and recording rules. docs/reference/alerts.md says what each means.",
    epilog=examples(
        "tonnage metrics rules > rules.yaml",
        "tonnage metrics rules --operator | kubectl apply -f -",
        "tonnage metrics rules --runbook-url https://docs.example.com/alerts.html",
    ),
)
@click.option("--operator", is_flag=True, help="Print a PrometheusRule for the Prometheus operator.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace of that object.")
@click.option(
    "--runbook-url",
    default="",
    metavar="URL",
    help="Where you publish docs/reference/alerts.md: every alert then links to its section (runbook_url).",
)
def rules(operator: bool, namespace: str, runbook_url: str) -> int:
    from tonnage.diagnose.monitoring.rules import prometheus_rule, rules_file

    _web_address("--runbook-url", runbook_url)
    if "#" in runbook_url:
        raise click.UsageError(
            f"--runbook-url {runbook_url[:60]!r}: leave out #…, which the alert's name follows"
        )
    made = prometheus_rule("tonnage", namespace, runbook_url) if operator else rules_file(runbook_url)
    emit(made, "yaml")
    return 0


def _web_address(option: str, url: str) -> None:
    """Refuse what is neither empty nor an address of the web."""
    if url and not url.startswith(("http://", "https://")):
        raise click.UsageError(f"{option} {url[:60]!r}: write http://… or https://…")
