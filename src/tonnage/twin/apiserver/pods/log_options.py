"""What may be asked of a container's log.

Source: ValidatePodLogOptions of pkg/apis/core/validation (v1.35); Convert_url_Values_To_v1_PodLogOptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.api.encoding.scalars import read_time
from tonnage.decide.kubernetes.api.problems import FieldError, InvalidError, forbidden, invalid
from tonnage.twin.apiserver.ownership.manager_names import options_status
from tonnage.twin.apiserver.serving.parameters import count_of
from tonnage.twin.apiserver.statuses import bad_request

_PARAMETERS: Final = (
    *("follow", "limitBytes", "previous", "sinceSeconds", "sinceTime", "stream", "tailLines", "timestamps"),
)
_LARGEST: Final = (1 << 63) - 1
_NO_TIME: Final = ("", "null")
"""Older clients write times as in JSON."""


def check_log_options(query: Mapping[str, str], name: str) -> None:
    """Refuse options of the log of the pod called `name`. Raises ApiError 400, 422.

    >>> check_log_options({"tailLines": "5", "sinceTime": "2026-01-02T03:04:05Z"}, "p")
    """
    counts = ("sinceSeconds", "tailLines", "limitBytes")
    since, tail, limit = (count_of(query, key, _LARGEST, least=-_LARGEST) for key in counts)
    _time(query)
    wrong: list[FieldError] = []
    if tail is not None and tail < 0:
        wrong.append(invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        wrong.append(invalid("limitBytes", limit, "must be greater than 0"))
    if since is not None and "sinceTime" in query:
        wrong.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since is not None and since < 1:
        wrong.append(invalid("sinceSeconds", since, "must be greater than 0"))
    if "stream" in query:
        wrong.append(forbidden("stream", "may not be specified"))
    if wrong:
        raise InvalidError(options_status("PodLogOptions", tuple(wrong), name=name, group=""))


def passed_on(query: Mapping[str, str]) -> list[tuple[str, str]]:
    """Checked options as kubelet gets them.

    >>> passed_on({"container": "c", "sinceTime": "2026-01-02T03:04:05+01:00"})
    [('sinceTime', '2026-01-02T02:04:05Z')]
    """
    read = {**query, "sinceTime": _time(query)}
    return [(key, read[key]) for key in _PARAMETERS if key in query and (read[key] or key != "sinceTime")]


def _time(query: Mapping[str, str]) -> str:
    """Since when, empty for any time. Raises ApiError 400."""
    written = query.get("sinceTime", "")
    try:
        return "" if written in _NO_TIME else str(read_time(written))
    except ValueError as error:
        raise bad_request(str(error)) from None
