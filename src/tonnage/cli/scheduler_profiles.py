"""`--scheduler-config FILE`: decide as a scheduler with that configuration does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from tonnage.model.cluster import Snapshot

F = TypeVar("F", bound=Callable[..., Any])


def profiles_option(function: F) -> F:
    """Adds the option; the command gets `scheduler_config`."""
    option = click.option(
        "--scheduler-config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Decide by the profiles of this KubeSchedulerConfiguration.",
    )
    return option(function)


def with_profiles(snapshot: Snapshot, path: Path | None) -> Snapshot:
    """The cluster with the scheduler's profiles out of a file, if one is given.

    Raises:
        ConfigError: the file cannot be read, or whatever is wrong in it.
    """
    if path is None:
        return snapshot
    from tonnage.cli.library import read_text
    from tonnage.documents.scheduler_config import scheduler_profiles

    profiles = scheduler_profiles(read_text(path), str(path))
    return replace(snapshot, schedulers={profile.name: profile for profile in profiles})
