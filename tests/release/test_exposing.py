"""Builds that tell too much of a small group are refused, whatever they are called and however they are split up."""

from __future__ import annotations

import re
from itertools import combinations

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, counts, write_spec

import engine
from engine.api.reading import read
from engine.errors import PrivacyError, StoreError
from engine.release import build, plan
from engine.source import charges
from queries.release import open_release

PEOPLE, FLAGGED, TABLES = 4_000, 150, 20
NAMES = [f"c{i:02d}" for i in range(TABLES)]
WIDE = [("bit", name, "flag") for name in NAMES]
CODE = {"kind": "category", "type": "integer"}
COLUMNS = {
    "id": {"kind": "integer"},
    "flag": CODE,
    "bit": CODE,
    **{name: {"kind": "integer"} for name in NAMES},
}


def frame(people: int = PEOPLE, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": np.arange(people),
            "flag": (np.arange(people) < FLAGGED).astype(int),
            "bit": rng.integers(0, 2, people),
            **{name: rng.integers(0, 8, people) for name in NAMES},
        }
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "people.parquet"
    frame().to_parquet(path)
    return path


def spec_of(folder, source, tables, *, privacy=None, **more):
    named = {name for table in tables for name in table}
    columns = {name: kind for name, kind in COLUMNS.items() if name in {"id", *named}}
    return read(
        write_spec(folder, source, columns, tables, entities=("id",), privacy=privacy, **more)
    )


@pytest.fixture
def made(tmp_path, source):
    """Build some tables of the source; gives the path of the release."""

    def make(tables, **more):
        path = tmp_path / f"{more.get('vintage', 'r')}.duckdb"
        return build(spec_of(tmp_path, source, tables, **more), path, jobs=1, force=True)

    return make


def test_a_plan_says_what_each_further_pair_would_reveal(tmp_path, source):
    """As much as is stated, and refused, of the spec with that pair."""
    tables = [("bit",), ("c00",), ("c01",), ("flag",), ("bit", "c00")]
    given = spec_of(tmp_path, source, tables, privacy={"refuse_at": 0.06})
    found = plan(given, further=True)
    pairs = {table.columns for table in found.further}
    assert pairs == {*combinations(("bit", "c00", "c01", "flag"), 2)} - {("bit", "c00")}
    for table in found.further:
        more = plan(
            spec_of(tmp_path, source, [*tables, table.columns], privacy={"refuse_at": 0.06})
        )
        assert table.guessed in {g.guessed for g in more.exposure.groups if g.told == table.told}
        assert table.is_refused == bool(more.refused)
    assert not found.refused
    assert {table.is_refused for table in found.further} == {False, True}


@pytest.mark.ci
def test_many_tables_about_few_people_are_refused_with_ways_out(tmp_path, source, made):
    with pytest.raises(PrivacyError) as refused:
        made(WIDE[:8])
    text = str(refused.value)
    assert "in the place of bit would be guessed right for more than 70%" in text.splitlines()[1]
    assert "most exposed: bit, from " in text
    assert "leave out" in text
    assert "layer_sd = " in text
    assert "mode dp" in text
    assert 'accept_risk = "..."' in text
    assert not charges(tmp_path / "my.key")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "my.key",
        "my.key.exposure.json",
        "my.key.exposure.json.lock",
        "my.key.journal",
        "my.key.journal.lock",
        "my.key.ledger.json",
        "release.toml",
    ]
    planned = plan(spec_of(tmp_path, source, WIDE[:8]))

    # Drawn otherwise, other tables and columns of the same kind may be named.
    def without_names(lines):
        return [line.split(" of ")[0] for line in lines if "leave out" not in line]

    assert without_names(planned.refused) == without_names(text.splitlines())
    assert planned.as_dict()["refused"] == list(planned.refused)


@pytest.mark.ci
def test_the_way_out_is_one(tmp_path, source):
    """Without the tables it names the plan is refused no longer, and the bit is guessed at most .70 right."""
    planned = plan(spec_of(tmp_path, source, WIDE))
    line = next(line for line in planned.refused if "leave out" in line)
    assert any(f"leave out {TABLES - kept} tables" in line for kept in (3, 4, 5))
    kept = plan(spec_of(tmp_path, source, WIDE[:3]))
    assert not kept.refused
    assert kept.warnings
    assert kept.exposure.guessed <= 0.70


@pytest.mark.ci
def test_an_accepted_risk_is_printed_wherever_people_look(made):
    path = made(WIDE, privacy={"accept_risk": "agreed with the board on 1 May"})
    con = duckdb.connect(path, read_only=True)
    worst = con.execute(
        "SELECT columns, ranges, told, figures, tables, figures_a_person, guessed FROM catalog.exposure"
    ).fetchall()[0]
    assert worst[2] == "bit"
    assert worst[4] >= TABLES + 1
    assert worst[5] == pytest.approx(2.0, abs=0.4)
    assert worst[6] > 0.85
    notes = con.sql("SELECT note FROM catalog.notes WHERE topic = 'exposure'").fetchall()
    assert ("The owner accepted this risk: agreed with the board on 1 May",) in notes
    con.close()
    with open_release(path) as release:
        for table in release.tables[:3]:
            sentences = " ".join(release.card(*table).sentences())
            assert "accepted this risk: agreed with the board" in sentences
            assert "of the most exposed 1 %" in sentences


@pytest.mark.ci
@pytest.mark.parametrize("as_vintages", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_told_in_as_many_builds_it_is_as_much(made, as_vintages):
    """One table a build, each with a spec that knows no other column, perhaps under a new name of vintage."""
    built = 0
    for number, table in enumerate(WIDE):
        try:
            made([table], vintage=f"v{number}" if as_vintages else "v")
        except PrivacyError as refused:
            assert "earlier builds of these " in str(refused)  # noqa: PT017
            break
        built += 1
    assert 2 <= built <= 4


@pytest.mark.ci
def test_what_was_told_before_is_told_again_at_no_charge(tmp_path, made):
    made(WIDE[:3])
    before = charges(tmp_path / "my.key")
    made(WIDE[:3])
    made(WIDE[1:2])
    assert charges(tmp_path / "my.key") == before
    assert len(before) == 1
    assert 0.2 < before[0].worst <= 0.4


@pytest.mark.ci
def test_unchanged_data_under_new_names_is_refused_after_a_few_looks(made):
    for year in range(4):
        made([("c00",), ("c01",)], vintage=str(year))
    with pytest.raises(
        PrivacyError, match=r"independent release 5 of nearly the same data.*\n.*previous ="
    ):
        made([("c00",), ("c01",)], vintage="4")
    made([("c00",), ("c01",)], vintage="4", privacy=ACCEPTED)


@pytest.mark.ci
def test_a_vintage_that_goes_on_keeps_what_did_not_change(tmp_path, source, made, monkeypatch):
    import engine.release.sticky as sticky

    measured, real = [], sticky.charged
    monkeypatch.setattr(
        sticky, "charged", lambda *a, **k: measured.append(a[2].measured) or real(*a, **k)
    )
    tables = [("c00",), ("bit", "c00", "flag")]
    first = counts(made(tables, vintage="2020"), "c00")
    for year in (2021, 2022):
        path = made(tables, vintage=str(year), release={"previous": str(year - 1)})
        assert counts(path, "c00") == first
    changed = pd.read_parquet(source)
    changed.loc[changed.c00 == 3, "c00"] = 7
    other = tmp_path / "changed.parquet"
    changed.to_parquet(other)
    spec = spec_of(tmp_path, other, tables, vintage="2023", release={"previous": "2022"})
    build(spec, tmp_path / "changed.duckdb", jobs=1, force=True)
    before, after = (
        {(level, at): n for level, at, n in zip(t.level[:, 0], t.index[:, 0], t.n, strict=True)}
        for t in (measured[0].one_way["c00"], measured[-1].one_way["c00"])
    )
    # Leaves of other people, and the pair of 0 and 1, hold the same people as before: the same noisy count.
    same = [(0, 0), (0, 1), (0, 2), (0, 4), (0, 5), (0, 6), (1, 0), (1, 2)]
    assert [after[one] for one in same] == [before[one] for one in same]
    assert (0, 3) not in after
    assert after[0, 7] != before[0, 7]


@pytest.mark.ci
def test_a_journal_that_is_gone_is_missed(tmp_path, made):
    """Else a vintage could be pinned to other data, and noise drawn for one be used on the other."""
    made([("c00",)])
    (tmp_path / "my.key.journal").unlink()
    with pytest.raises(StoreError, match="lacks vintage '2021', which was built with this key"):
        made([("c00",)])


@pytest.mark.ci
def test_a_key_without_its_ledger_counts_as_one_more_look(tmp_path, made):
    made([("c00",)])
    for name in ("my.key.journal", "my.key.exposure.json"):
        (tmp_path / name).unlink()
    con = duckdb.connect(made([("c00",)]), read_only=True)
    notes = con.execute("SELECT note FROM catalog.notes WHERE topic = 'exposure'").fetchall()
    assert (
        "The key has no ledger from its first day: that counts as one independent release.",
    ) in notes


@pytest.mark.ci
@pytest.mark.parametrize("damage", ["gone", "older"])
def test_a_ledger_that_is_gone_or_older_is_missed(tmp_path, made, damage):
    made([("c00",)])
    ledger = tmp_path / "my.key.exposure.json"
    older = ledger.read_bytes()
    made([("c00", "c01")])
    if damage == "gone":
        ledger.unlink()
    else:
        ledger.write_bytes(older)
    with pytest.raises(StoreError, match="lacks builds that the journal knows"):
        made([("c00",)])


@pytest.mark.ci
def test_the_ways_out_can_be_gone(made):
    """A refused build leaves its vintage free: noise and encodings may still be changed."""
    with pytest.raises(PrivacyError, match="layer_sd = ") as refused:
        made(WIDE[:8])
    sd = int(re.search(r"layer_sd = (\d+)", str(refused.value))[1])
    made(WIDE[:8], privacy={"layer_sd": sd})
    with pytest.raises(PrivacyError) as later:
        made(WIDE[:8], privacy={"layer_sd": sd, "refuse_at": 0.05})
    assert "leave out" in str(later.value)
    assert "layer_sd = " not in str(later.value)  # pinned by the build before


@pytest.mark.ci
def test_going_on_with_other_values_of_the_same_people_is_charged(tmp_path, source, made):
    """The sketch knows who is in the data, not what they say: their new values are told anew."""
    made(WIDE[:3], vintage="2020")
    changed = pd.read_parquet(source)
    changed["c00"], changed["c01"], changed["c02"] = changed.c01, changed.c02, changed.c00
    other = tmp_path / "other.parquet"
    changed.to_parquet(other)
    spec = spec_of(
        tmp_path,
        other,
        WIDE[:3],
        vintage="2021",
        release={"previous": "2020", "entity": "patients"},
    )
    with pytest.raises(PrivacyError, match="earlier builds of these patients counted"):
        build(spec, tmp_path / "2021.duckdb", jobs=1, force=True)


def test_going_on_from_what_was_never_built_or_codes_otherwise_is_refused(tmp_path, source, made):
    with pytest.raises(
        PrivacyError, match="no vintage '2019' was built with this key; there are: none yet"
    ):
        made([("c00",)], vintage="2020", release={"previous": "2019"})
    made([("c00",)], vintage="2020")
    strict = {"profile": "strict"}
    with pytest.raises(
        PrivacyError, match="goes on from '2020', but the privacy parameters changed"
    ):
        made([("c00",)], vintage="2021", release={"previous": "2020"}, privacy=strict)


@pytest.mark.slow
def test_a_frame_goes_on_from_a_vintage_too(tmp_path):
    engine.new_key(tmp_path / "my.key")
    people = frame(600)
    of_frame = {"tables": [["c00"]], "key": tmp_path / "my.key", "entities": ["id"]}
    found = []
    for vintage, previous in (("1", None), ("2", "1"), ("3", "2"), ("4", None)):
        out = tmp_path / f"{vintage}.duckdb"
        engine.build(people, out=out, vintage=vintage, previous=previous, **of_frame).close()
        found.append(counts(out, "c00"))
    assert found[0] == found[1] == found[2] != found[3]


@pytest.mark.ci
def test_a_resumed_build_counts_what_was_built_before(tmp_path, source, monkeypatch):
    import engine.release.sticky as sticky

    spec = spec_of(tmp_path, source, WIDE[:3])
    real = sticky.charged

    def cut(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sticky, "charged", cut)
    with pytest.raises(KeyboardInterrupt):
        build(spec, tmp_path / "r.duckdb", jobs=1, force=True)
    assert [*tmp_path.glob("*.measured-*")]
    assert not charges(spec.key_path)
    seen = []
    monkeypatch.setattr(sticky, "charged", lambda *a, **k: seen.append(real(*a, **k)) or seen[0])
    build(spec, tmp_path / "r.duckdb", jobs=1, force=True)
    assert seen[0].guessed == plan(spec).exposure.guessed > 0.6


def test_plans_of_vintages_that_were_never_built_draw_alike(tmp_path, source):
    """Noise that differed from name to name would average away over plans, which no ledger knows of."""
    plans = {
        tuple((t.columns, t.cells, t.suppressed_share) for t in plan(one).tables)
        for name in ("a", "b", "c")
        for one in [spec_of(tmp_path, source, [("c00", "flag"), ("c01",)], vintage=name)]
    }
    assert len(plans) == 1


@pytest.mark.ci
def test_refusals_of_vintages_that_were_never_built_say_what_plans_say(tmp_path, source, made):
    said = set()
    for name in ("a", "b", "c"):
        with pytest.raises(PrivacyError) as refused:
            made(WIDE[:16], vintage=name)
        planned = plan(spec_of(tmp_path, source, WIDE[:16], vintage=name))
        said |= {str(refused.value), "\n".join(planned.refused)}
    assert len(said) == 1


@pytest.mark.ci
def test_of_columns_that_an_added_table_does_not_reveal_the_figures_stay(
    tmp_path, source, monkeypatch
):
    """It states what a full build states, but measures only tables that show a column of the new one."""
    import engine.release.exposing as exposing

    def stated(path):
        with duckdb.connect(path, read_only=True) as con:
            groups = con.execute("FROM catalog.exposure").fetchall()
            (mu,) = con.execute(
                "SELECT (card->'exposure'->'mu')::DOUBLE FROM catalog.tables"
            ).fetchone()
        return groups, pytest.approx(mu, abs=1e-3)

    old = [("bit", "c00"), ("c00", "c01"), ("c02", "c03"), ("c04", "c05")]
    path = tmp_path / "r.duckdb"
    spec = spec_of(tmp_path, source, old)
    build(spec, path, jobs=1, force=True)
    before = stated(path)
    measured, real = [], exposing.measure_wider

    def seen(source, tables, draws):
        measured.extend(tables)
        return real(source, tables, draws)

    monkeypatch.setattr(exposing, "measure_wider", seen)
    engine.add(path, [("c01", "c02")], spec=tmp_path / "release.toml").close()
    assert set(measured) == {("c00", "c01"), ("c02", "c03")}
    added = stated(path)
    assert added[1].expected != before[1]
    again = tmp_path / "again.duckdb"
    build(read(tmp_path / "release.toml"), again, jobs=1)
    groups, mu = stated(again)
    assert groups == added[0]
    assert mu.expected == added[1]
