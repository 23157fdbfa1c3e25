"""Files as people have them: each comes out as a pack with no edit of the spec, or is refused with what to do."""

from __future__ import annotations

import re

import pytest
from corpus.files import CORPUS
from corpus.journeys import travel


def test_there_are_enough():
    assert len(CORPUS) >= 25
    assert len({nasty.why for nasty in CORPUS.values()}) == len(CORPUS)


ALWAYS = ("latin_1", "identifiers")
"""Taken all the way by default; of the others those that are refused, which is soon known."""


@pytest.mark.ci
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[] if nasty.refused or n in ALWAYS else [pytest.mark.slow])
        for n, nasty in CORPUS.items()
    ],
)
def test_a_file_of_the_corpus(tmp_path, name):
    nasty = CORPUS[name]
    journey = travel(nasty, tmp_path)
    if nasty.refused:
        assert (journey.ended, journey.code) in (("init", 2), ("plan", 3)), journey.said
        assert re.search(nasty.refused, re.sub(r"\s+", " ", journey.said))
    else:
        assert (journey.ended, journey.code) == ("publish", 0), journey.said
    missing = [line for line in nasty.in_spec if line not in journey.spec]
    assert missing == [], journey.spec
