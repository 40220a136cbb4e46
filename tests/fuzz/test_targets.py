"""Every target meets its corpus and some hundred changes of it, the same on every run and without atheris."""

from __future__ import annotations

import pytest

from fuzz.inputs import CORPUS, changed, corpus_of
from fuzz.targets import TARGETS

CHANGES = 400
REQUESTS = 60
"""Of changes where each is a request to a server, which takes longer."""


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_does_more_than_to_be_refused(name: str) -> None:
    corpus = corpus_of(name)
    with TARGETS[name]() as target:
        for data in (*corpus, *changed(corpus, REQUESTS if name.startswith("api-") else CHANGES, seed=1)):
            try:
                target(data)
            except Exception as error:
                error.add_note(f"{name} was given {data!r}")
                raise


def test_every_folder_of_the_corpus_is_a_target_s() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS)
