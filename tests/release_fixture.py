from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from engine.card import GeneratorCard
from engine.params import PrivacyParams
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    Alphabet,
    CellGroups,
    Column,
    ColumnSet,
    ReleaseHeader,
    Resolution,
    SyntheticTable,
)
from engine.store import Staging

AGE = Column(name="AGE", kind="integer", value_type="integer", nulls=("N",), label="Age in years")
SEX = Column(
    name="SEX",
    kind="category",
    value_type="text",
    domain=("f", "m"),
    nulls=("N",),
    labels=(("f", "Women"), ("m", "Men")),
)
TOWN = Column(name="TOWN", kind="text", value_type="text", nulls=("N",), placeholder="(other)")
INCOME = Column(
    name="INCOME",
    kind="real",
    value_type="real",
    resolution=Resolution(base=10, exponent=-1),
    nulls=("N",),
)
COLUMNS = (TOWN, AGE, SEX, INCOME)  # the source's order is not the sorted one


def make_alphabet(column: Column, letters, n=None, values=None) -> Alphabet:
    kind = np.array([k for k, _ in letters], dtype=np.uint8)
    code = np.array([c for _, c in letters], dtype=np.int64)
    count = np.full(len(letters), 10) if n is None else np.array(n)
    return Alphabet(
        column=column,
        kind=kind,
        code=code,
        n=count.astype(np.int64),
        measured=np.ones(len(letters), dtype=np.bool_),
        values=values,
    )


ALPHABETS = {
    "AGE": make_alphabet(
        AGE, [(KIND_NULL, 0), (KIND_NONNEGATIVE, 7), (KIND_NONNEGATIVE, 40), (KIND_NONNEGATIVE, 41)]
    ),
    "SEX": make_alphabet(SEX, [(KIND_NONNEGATIVE, 0), (KIND_NONNEGATIVE, 1)], values=("f", "m")),
    "TOWN": make_alphabet(
        TOWN,
        [(KIND_NULL, 0), (KIND_NONNEGATIVE, 0), (KIND_NONNEGATIVE, 1), (KIND_OTHER, 0)],
        values=("Bath", 'Ely, O\'Neill "x"'),
    ),
    "INCOME": make_alphabet(
        INCOME, [(KIND_NULL, 0), (KIND_NEGATIVE, -25), (KIND_NONNEGATIVE, 0), (KIND_NONNEGATIVE, 3)]
    ),
}
TABLES: tuple[ColumnSet, ...] = (
    ("AGE",),
    ("INCOME",),
    ("SEX",),
    ("TOWN",),
    ("AGE", "SEX"),
    ("AGE", "TOWN"),
    ("AGE", "INCOME", "SEX"),
)
HEADER = ReleaseHeader(
    title="A tiny release",
    logical_name="data",
    vintage="2026-1",
    mode="sticky",
    key_id="00112233aabbccdd",
    privacy={"low_threshold": 3, "profile": "standard"},
    engine_version="0.1.0",
    columns=COLUMNS,
    tables=TABLES,
    notes=("Made by hand.",),
)


def make_table(columns: ColumnSet, alphabets=None, *, seed: int = 0) -> SyntheticTable:
    alphabets = ALPHABETS if alphabets is None else alphabets
    sizes = [range(len(alphabets[c])) for c in columns]
    letters = np.array(list(itertools.product(*sizes)), dtype=np.int32).reshape(-1, len(columns))
    letters = letters[:1000]
    n = 1 + (np.arange(len(letters), dtype=np.int64) * 7 + seed) % 5
    measured = n > 2
    kind = np.stack([alphabets[c].kind[letters[:, j]] for j, c in enumerate(columns)], axis=1)
    code = np.stack([alphabets[c].code[letters[:, j]] for j, c in enumerate(columns)], axis=1)
    high = code + (kind == KIND_NONNEGATIVE) * ~measured[:, None]
    return SyntheticTable(
        columns=columns,
        letters=letters,
        n=n,
        measured=measured,
        groups=CellGroups(
            kind=kind,
            low=code,
            high=high.astype(np.int64),
            n=n,
            noise_sd=np.full(len(n), 1.5),
            measured=measured,
        ),
    )


def make_card(table: SyntheticTable) -> GeneratorCard:
    params = PrivacyParams()
    return GeneratorCard(
        columns=table.columns,
        sub_tables=tuple((c,) for c in table.columns) if len(table.columns) > 1 else (),
        mode="sticky",
        profile=params.profile,
        vintage=HEADER.vintage,
        key_id=HEADER.key_id,
        engine_version=HEADER.engine_version,
        low_threshold=params.low_threshold,
        threshold_mean=params.threshold_mean,
        noise_sd=1.5,
        noise_sd_total=1.5,
        buckets_released=len(table.n) + 1,
        cells_released=int(table.measured.sum()),
        cells=len(table.n),
        rows=table.n_rows,
        suppressed_share=0.25,
        rounding_gap=0,
        rake_cycles=3,
        rake_error=1e-9,
        rake_converged=True,
        cells_per_entity=0.5,
    )


def stage(staging: Staging, header: ReleaseHeader, alphabets, *, seed: int = 0) -> None:
    for alphabet in alphabets.values():
        staging.put_alphabet(alphabet)
    done = staging.finished()
    for columns in header.tables:
        if columns not in done:
            table = make_table(columns, alphabets, seed=seed)
            staging.put_table(table, make_card(table))


def build_release(
    path: Path, *, header: ReleaseHeader = HEADER, alphabets=None, seed: int = 0
) -> Path:
    alphabets = ALPHABETS if alphabets is None else alphabets
    with Staging.open(path, header, build_id=f"build {seed}") as staging:
        stage(staging, header, alphabets, seed=seed)
        staging.finish()
    return path


def expanded(table: SyntheticTable, alphabets=None) -> list[tuple]:
    """The table's synthetic rows, columns in sorted order, by plain Python."""
    from engine.decode import decode_values

    alphabets = ALPHABETS if alphabets is None else alphabets
    values = [decode_values(alphabets[c]) for c in table.columns]
    return [
        tuple(values[j][letter] for j, letter in enumerate(row))
        for row, n in zip(table.letters.tolist(), table.n.tolist(), strict=True)
        for _ in range(n)
    ]
