"""Parameter sweeps: which settings are built, what an analyst loses by hand, what the page says of the spec."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import pandas as pd
import pytest
from fixtures.compare import make_small

from engine.api.reading import read
from engine.evaluation.compare import (
    SCRATCH,
    THE_SPEC,
    Comparison,
    Generator,
    Run,
    compare_all,
    misplaced,
    settings_of,
)
from engine.evaluation.data.aligned import Binning, Reading, align, distinct
from engine.evaluation.report.page import comparison_page, risk_pictures
from engine.params import SwapParams
from engine.release import build

pytest.importorskip("jinja2")
SWAP = SwapParams(columns=("a",), rare=("b",), rate=0.1)


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    found = read(make_small(folder, dp=""))
    return replace(found, privacy=replace(found.privacy, swap=SWAP))


# --- what is built


def test_each_setting_changes_one_parameter(spec):
    found = settings_of(spec)
    told = {c.generator.name: c.made_by.privacy for c in found if c.generator.kind != "tables"}
    own = spec.privacy
    assert found[0].generator.name == THE_SPEC
    assert told == {
        "the spec": own,
        "threshold of mean 8": replace(own, threshold_mean=8),
        "threshold of mean 12": replace(own, threshold_mean=12),
        "noise layers of sd 2": replace(own, layer_sd=2),
        "noise layers of sd 4": replace(own, layer_sd=4),
        "profile strict": replace(own, profile="strict", threshold_mean=20, layer_sd=2),
        "swapping off": replace(own, swap=None),
        "swapping at 5.00%": replace(own, swap=replace(SWAP, rate=0.05)),
        "swapping at 20.00%": replace(own, swap=replace(SWAP, rate=0.2)),
    }
    narrow = next(c.made_by for c in found if c.generator.name == "tables of at most 1 column")
    assert narrow.tables == (("a",), ("b",), ("c",))
    assert narrow.privacy == own
    for one in (c.made_by for c in found):
        assert one.notes[0] == SCRATCH
        assert one.bounds.accept_risk
        assert one.previous is None


# --- what an analyst loses


def aligned(tables, **bins):
    original = pd.DataFrame({"a": ["x"] * 6 + ["y"] * 4, "b": [1, 1, 1, 2, 2, 2, 1, 1, 1, 1]})
    frames = {tuple(sorted(frame)): distinct(frame) for frame in map(pd.DataFrame, tables)}
    return align(original, frames, Reading(bins=bins))


def test_misplaced_rows_by_hand():
    whole = {"a": ["x"] * 6 + ["y"] * 4, "b": [1, 1, 1, 2, 2, 2, 1, 1, 1, 1]}
    assert misplaced(aligned([whole]), ("a", "b")) == 0
    # Two of ten rows of (x, 2) stand in (y, 2), which nobody has.
    off = whole | {"a": ["x"] * 4 + ["y"] * 6}
    assert misplaced(aligned([off]), ("a", "b")) == pytest.approx(0.2)
    assert misplaced(aligned([off]), ("b",)) == 0
    # Put together from one-way tables: .42, .18, .28, .12 for .3, .3, .4, 0.
    one_way = [{"a": whole["a"]}, {"b": whole["b"]}]
    assert misplaced(aligned(one_way), ("a", "b")) == pytest.approx(0.24)
    # What no table has is left out of the table.
    assert misplaced(aligned(one_way[:1]), ("a",)) == 0
    bound = Binning(edges=(0.0, 5.0))
    assert misplaced(aligned([off], b=bound), ("a", "b")) == pytest.approx(0.2)
    assert misplaced(aligned([off], b=bound), ("b",)) == 0


# --- how it runs


@pytest.fixture(scope="module")
def ran(spec, tmp_path_factory):
    scratch = tmp_path_factory.mktemp("scratch")
    before, tempfile.tempdir = tempfile.tempdir, str(scratch)
    told, seen = [], []

    def build_one(one, path):
        seen.append(one)
        build(one, path, jobs=1)

    kept = [c for c in settings_of(spec) if c.generator.kind in ("spec", "noise", "tables")]
    control = pd.read_csv(spec.source.path).sample(frac=0.3, random_state=1)
    try:
        found = compare_all(
            "sweep",
            spec,
            kept,
            repeats=1,
            build=build_one,
            control=control,
            progress=lambda *what: told.append(what),
        )
    finally:
        tempfile.tempdir = before
    return found, seen, told, scratch


@pytest.mark.ci
def test_noise_and_fewer_tables_lose_more_and_nothing_is_left(ran, spec):
    found, seen, told, scratch = ran
    lost = {g.name: found.spread("misplaced", g.name).median for g in found.generators()}
    # over 50 keys: .022 to .037, .033 to .050 (which overlap) and .055 to .078
    assert lost["the spec"] < lost["noise layers of sd 4"]
    assert "noise layers of sd 2" in lost
    assert lost["tables of at most 1 column"] > 3 * lost["the spec"]
    assert len({one.key_path for one in seen}) == 4
    assert all(scratch in one.key_path.parents for one in seen)
    assert not [p for p in scratch.rglob("*") if p.is_file() and p.suffix != ".lock"]
    assert (told[0][1:], told[-1]) == ((0, 4), ("done", 4, 4))
    assert {f.name for f in found.weighed()} == {
        *("misplaced", "attribute", "attribute_unusual", "membership"),
    } | ({"reconstruction"} & found.runs[0].figures.keys())
    assert found.has_control
    assert found.n_rows == 700


# --- what is told

SWEPT = (
    Generator(name=THE_SPEC, kind="spec"),
    Generator(name="noise layers of sd 2", kind="noise"),
)


def made(**figures: tuple[list[float], list[float]]) -> Comparison:
    """A sweep of the spec and one other setting."""
    runs = [
        Run(
            generator=setting,
            repeat=i + 1,
            figures={name: sides[at][i] for name, sides in figures.items()},
        )
        for at, setting in enumerate(SWEPT)
        for i in range(len(next(iter(figures.values()))[at]))
    ]
    return Comparison(
        view="sweep",
        title="<made> & up",
        runs=tuple(runs),
        own=THE_SPEC,
        repeats=3,
        n_tables=4,
        n_rows=1_000,
        has_control=True,
        notes=("a note",),
        version="0",
    )


MADE = {
    "misplaced": ([0.1, 0.3, 0.2], [0.4, 0.3, 0.5]),
    "attribute": ([0.05, 0.06, 0.04], [0.02, 0.01, 0.03]),
    "membership": ([0.6, 0.6, 0.6], [0.65, 0.6, 0.7]),
}


@pytest.mark.ci
def test_the_page_names_the_spec():
    found = made(**MADE)
    assert comparison_page(found).count("<svg") == 2
    first, second = risk_pictures(found)
    assert "the spec" in first.svg
    assert "noise layers of sd 2" in first.svg
    assert (first.is_wide, second.is_wide) == (True, False)
