"""Where the texts of `kubectl explain` come from."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tonnage.twin.apiserver.discovery.descriptions import Descriptions

_EVENT = "core/v1.Event"
_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"


def test_texts_are_upstreams_with_their_paragraphs() -> None:
    texts = Descriptions()
    about, fields = texts.of("core/v1.PodSpec")
    assert about
    assert "\n\n" in fields["hostUsers"] + fields["os"] + fields["securityContext"] + fields["overhead"]
    assert (
        Descriptions().published("io.k8s.apimachinery.pkg.apis.meta.v1.Time").startswith("Time is a wrapper")
    )


def test_without_the_extra_there_are_texts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    published = Descriptions().of(_EVENT)
    found = importlib.util.find_spec

    def without(name: str, *rest: Any) -> Any:
        return None if name == "kubernetes_validate" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    about, fields = Descriptions().of(_EVENT)
    assert about == " ".join(published[0].split())
    assert fields.keys() == published[1].keys()
    assert Descriptions().published(_TIME) == ""


def test_what_nobody_describes_has_no_text() -> None:
    assert Descriptions().of("example/v1.Nonsense") == ("", {})
