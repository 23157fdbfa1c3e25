"""No released number changes by accident: whole builds of both modes against their pinned content hashes.

A change that is meant goes with `./scripts/golden` and a line in CHANGELOG.md.
"""

from __future__ import annotations

import tomllib

import pytest
from fixtures.golden import DP, STICKY, hashes
from fixtures.pipeline import ROOT

PINNED = tomllib.loads((ROOT / "tests" / "golden" / "releases.toml").read_text("utf-8"))


def test_every_build_is_pinned():
    assert list(PINNED) == [*STICKY, *DP]


def some(names):
    """The first by default, all of them in CI."""
    return [pytest.param(n, marks=pytest.mark.ci) if i else n for i, n in enumerate(names)]


@pytest.mark.parametrize("name", some(STICKY))
def test_sticky_builds_are_the_pinned_ones(name):
    assert hashes([name])[name] == PINNED[name]


@pytest.mark.parametrize("name", some(DP))
def test_dp_builds_are_the_pinned_ones(name):
    pytest.importorskip("opendp")
    assert hashes([name])[name] == PINNED[name]
