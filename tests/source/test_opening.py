from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.measure import column, nodes_of

from engine.errors import PrivacyError, SpecError
from engine.key_files import new_key
from engine.measure import measure_one_way
from engine.mechanism import StickyDraws, measure_wider
from engine.params import PROFILES
from engine.progress import silent
from engine.schema import SourceSpec
from engine.source import open_rows, pin_vintage
from engine.source.journal import journal_path, read_journal
from engine.spec import ReleaseSpec
from engine.units import unit_of

A, B, C = column("A"), column("B", "category"), column("C")
PERSON, HOME = column("id"), column("home")
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "id": range(120),
        "home": np.arange(120) // 3,
        "A": RNG.integers(0, 5, 120),
        "B": RNG.choice(["canary-x", "canary-y", "canary-z"], 120),
        "C": RNG.integers(0, 9, 120),
    }
)


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    new_key(tmp_path / "key")
    return ReleaseSpec(
        title="t",
        logical_name="data",
        vintage="2024",
        key_path=tmp_path / "key",
        mode="sticky",
        source=SourceSpec(path=None, format="frame"),
        columns=(A, B),
        privacy=PROFILES["standard"],
        tables=(("A",), ("A", "B")),
    )


def with_entities(spec, *names):
    extra = {"id": PERSON, "home": HOME}
    return replace(
        spec,
        source=replace(spec.source, entities=names),
        privacy=replace(spec.privacy, max_rows=8 if "home" in names else None),
        columns=tuple(c for c in spec.columns if c.name not in extra)
        + tuple(extra[n] for n in names),
    )


def buckets(spec, frame=FRAME) -> dict:
    """All that one build measures."""
    with open_rows(spec, frame, silent) as opened:
        pin_vintage(spec.key_path, spec.vintage, opened.state)
        draws = StickyDraws(opened.key, spec.vintage, spec.privacy)
        found = measure_one_way(opened.ingested, opened.entities, opened.columns, draws)
        wide = [t for t in spec.tables if len(t) > 1]
        out = {name: nodes_of(m) for name, m in found.one_way.items()}
        return out | {m.columns: nodes_of(m) for m in measure_wider(found, wide, draws)}


def fingerprint(spec, frame=FRAME) -> str:
    with open_rows(spec, frame, silent) as opened:
        pin_vintage(spec.key_path, spec.vintage, opened.state)
        return opened.fingerprint


def test_nothing_is_left_but_the_key_and_its_journal(spec, tmp_path):
    with open_rows(replace(spec, columns=(A, B, C)), FRAME, silent) as opened:
        assert [c.name for c in opened.columns] == ["A", "B"]  # those of the tables
        assert not journal_path(spec.key_path).exists()  # looking pins nothing
        pin_vintage(spec.key_path, spec.vintage, opened.state)
        con = opened.ingested.con
    with pytest.raises(duckdb.Error):
        con.execute("SELECT 1")
    left = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert sorted(p.name for p in left) == ["key", "key.journal", "key.journal.lock", "sweep.lock"]
    for path in left:
        assert b"canary" not in path.read_bytes()


@pytest.mark.ci
@pytest.mark.parametrize("entities", [(), ("id",), ("id", "home")])
def test_another_state_of_the_source_is_refused(spec, entities):
    spec = with_entities(spec, *entities)
    one = fingerprint(spec)
    more = pd.concat([FRAME, FRAME.iloc[:1].assign(id=999)])
    other_value = FRAME.assign(A=FRAME["A"].where(FRAME.index != 7, FRAME["A"] + 1))
    for changed in (more, other_value, FRAME.iloc[1:]):
        with pytest.raises(PrivacyError, match="is pinned to another state"):
            fingerprint(spec, changed)
    assert fingerprint(spec) == one
    assert fingerprint(replace(spec, vintage="2025"), more) != one


@pytest.mark.ci
@pytest.mark.parametrize("entities", [("id",), ("home",), ("id", "home")])
def test_another_state_is_noticed_through_other_columns(spec, entities):
    """The first build saw A and B, the second sees C only: its entities tell."""
    spec = with_entities(spec, *entities)
    fingerprint(spec)
    only_c = with_entities(replace(spec, columns=(C,), tables=(("C",),)), *entities)
    with pytest.raises(PrivacyError, match="the entities or the number of rows"):
        fingerprint(only_c, FRAME.iloc[:-1])
    fingerprint(only_c)


@pytest.mark.parametrize(
    ("first", "then"), [(("id",), ()), ((), ("id",)), (("id", "home"), ("home", "id"))]
)
def test_other_entities_are_refused(spec, first, then):
    fingerprint(with_entities(spec, *first))
    with pytest.raises(PrivacyError, match="the entity columns"):
        fingerprint(with_entities(spec, *then))


def test_other_parameters_and_encodings_are_refused(spec):
    fingerprint(spec)
    with pytest.raises(PrivacyError, match="the privacy parameters"):
        fingerprint(replace(spec, privacy=PROFILES["strict"]))
    ordered = replace(B, domain=("canary-z", "canary-y", "canary-x"))
    with pytest.raises(PrivacyError, match="the encoding of column B"):
        fingerprint(replace(spec, columns=(A, ordered)))


def test_a_new_column_keeps_identity_and_buckets(spec):
    one = buckets(spec)
    wider = replace(spec, columns=(A, B, C), tables=(*spec.tables, ("C",), ("A", "C")))
    found = buckets(wider)
    assert {name: found[name] for name in one} == one
    assert read_journal(spec.key_path).vintages["2024"].identity == ("A", "B")
    assert buckets(spec) == one
    with pytest.raises(SpecError, match=r"source\.identity: no column B"):
        fingerprint(replace(spec, columns=(A, C), tables=(("A",),)))


@pytest.mark.ci
def test_the_fingerprint_tells_builds_apart(spec):
    seen = {
        fingerprint(s)
        for s in (
            spec,
            replace(spec, title="u"),
            replace(spec, tables=(("A",),)),
            replace(spec, notes=("n",)),
            replace(spec, vintage="2025"),
            replace(spec, logical_name="other"),
            replace(spec, unit=unit_of("visit", "visits")),
            replace(spec, entity=unit_of("patient", "patients")),
            replace(spec, is_reviewed=True),
            replace(spec, privacy=replace(spec.privacy, max_rows=1)),
            replace(spec, privacy=replace(spec.privacy, max_rows=1, detected=("max_rows",))),
        )
    }
    assert len(seen) == 11


def test_a_large_source_is_worked_on_in_an_encrypted_file(spec, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.source.opening.ON_DISK_BYTES", 10)
    path = tmp_path / "source.csv"
    FRAME.to_csv(path, index=False)
    from_file = replace(spec, source=SourceSpec(path=str(path), format="csv"))
    in_memory = buckets(spec)
    with open_rows(from_file, None, silent):
        files = [p for p in Path(tmp_path).rglob("confidential*") if p.is_file()]
        assert files
        assert all(b"canary" not in p.read_bytes() for p in files)
    assert buckets(from_file, None) == in_memory
    assert not list(Path(tmp_path).rglob("confidential*"))


def test_a_bad_key_is_refused_first(spec):
    spec.key_path.chmod(0o644)
    with pytest.raises(SpecError, match="read by others"):
        fingerprint(spec, None)
