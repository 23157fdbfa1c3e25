"""Made-up people whose tables reveal a secret in ways that their columns do not show.

Each structure is data, columns and tables of a release, and the secret as `attacks.reconstructing` attacks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pandas as pd

from attacks.reconstructing import Secret, Shown
from engine import Column

Tables = list[tuple[str, ...]]
PERSON = "pid"
GROUPS = 4
"""Groups of 150 people, each as exposed as one would be: more secrets to guess in one release."""
BIT = Shown(side={"0": -1, "1": 1})


@dataclass(frozen=True, kw_only=True)
class Structure:
    frame: pd.DataFrame
    columns: Sequence[Column]
    builds: Sequence[Tables]  # Tables of each build of one key; of most one
    told: str  # Column whose stated figure is held against the attack; empty: the one that is told most
    secret: Secret
    group: np.ndarray | None = (
        None  # Positions of the people who are most exposed; None: by the first-order ratio
    )
    ways: str = ""  # How further builds are made: "add", "vintage"; empty: one more release
    privacy: Mapping[str, object] = field(default_factory=dict)
    max_rows: int | None = None


def category(name: str, values: Sequence[str], *, nullable: bool = False) -> Column:
    """A column with a public list of values."""
    return Column(
        name=name,
        kind="category",
        value_type="text",
        domain=tuple(values),
        public=True,
        nullable=nullable,
    )


def number(name: str) -> Column:
    return Column(name=name, kind="integer", value_type="integer")


def _levels(n: int) -> list[str]:
    return [f"v{j:04d}" for j in range(n)]


def _of(
    columns: Mapping[str, np.ndarray], bit: np.ndarray, tables: Tables, **more: object
) -> Structure:
    """Columns of values 0, 1, ... (-1: null) beside a column `bit`."""
    frame, declared = {PERSON: np.arange(len(bit)) + 100_000}, [category("bit", ["0", "1"])]
    frame["bit"] = bit.astype(str)
    for name, held in columns.items():
        values = np.array([*_levels(int(held.max()) + 1), None], dtype=object)
        frame[name] = values[held]
        declared.append(
            category(name, _levels(int(held.max()) + 1), nullable=bool((held < 0).any()))
        )
    data = pd.DataFrame(frame)
    secret = Secret(
        known=data.drop(columns="bit"),
        person=np.arange(len(bit)),
        truth=2 * bit - 1,
        shown={"bit": BIT},
    )
    given = {"builds": [tables], "told": "bit", "secret": secret} | more
    return Structure(frame=data, columns=declared, **given)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Showing:
    """A column that shows the secret: its values, which there may be, how they show it, what else they tell."""

    values: np.ndarray
    domain: Sequence[str]
    shown: Shown
    label: np.ndarray | None = None
    nullable: bool = False


def _showing(
    known: Mapping[str, np.ndarray],
    bit: np.ndarray,
    showing: Mapping[str, Showing],
    tables: Tables,
    **more: object,
) -> Structure:
    """Columns that are known beside columns that show the secret, which has no column of its own."""
    plain = _of(known, bit, [])
    frame = plain.frame.drop(columns="bit").assign(**{n: c.values for n, c in showing.items()})
    declared = [category(n, c.domain, nullable=c.nullable) for n, c in showing.items()]
    secret = Secret(
        known=frame[list(known)],
        person=np.arange(len(bit)),
        truth=2 * bit - 1,
        shown={n: c.shown for n, c in showing.items()},
        labels={n: c.label for n, c in showing.items() if c.label is not None},
    )
    given = {"builds": [tables], "told": "", "secret": secret} | more
    return Structure(frame=frame, columns=[*plain.columns[1:], *declared], **given)  # type: ignore[arg-type]


def few(k: int, seed: int, people: int) -> Structure:
    """Four times 150 people, who alone have values in k columns, each group its own; tables (column, bit)."""
    rng = np.random.default_rng([1, k, seed])
    group = np.arange(people) // 150
    columns = {
        f"c{i:02d}": np.where(group < GROUPS, 8 * group + rng.integers(0, 8, people), -1)
        for i in range(k)
    }
    tables: Tables = [("bit", c) for c in columns]
    most = np.flatnonzero(group < GROUPS)
    return _of(columns, rng.integers(0, 2, people), tables, group=most)


def everybody(k: int, seed: int, people: int, *, cell: int = 20, **more: object) -> Structure:
    """K columns of so many values that 20 people share each; tables (column, bit)."""
    rng = np.random.default_rng([2, k, seed])
    columns = {f"c{i:02d}": rng.integers(0, people // cell, people) for i in range(k)}
    return _of(columns, rng.integers(0, 2, people), [("bit", c) for c in columns], **more)


def recodes(k: int, seed: int, people: int) -> Structure:
    """The secret inside the values of k columns; tables (flag of four times 150 people, column)."""
    rng = np.random.default_rng([3, k, seed])
    bit, group = rng.integers(0, 2, people), np.minimum(np.arange(people) // 150, GROUPS)
    values = [f"v{a}{b}" for a in range(8) for b in (0, 1)]
    how = Shown(side={v: 2 * int(v[2]) - 1 for v in values}, label={v: int(v[1]) for v in values})
    showing = {}
    for i in range(k):
        known = rng.integers(0, 8, people)
        showing[f"c{i:02d}"] = Showing(np.array(values)[2 * known + bit], values, how, known)
    tables: Tables = [(c, "flag") for c in showing]
    most = np.flatnonzero(group < GROUPS)
    return _showing({"flag": group}, bit, showing, tables, group=most)


def copies(k: int, seed: int, people: int, *, differing: float = 0.02) -> Structure:
    """K near copies of the secret, each in a table with a column of its own."""
    rng = np.random.default_rng([4, k, seed])
    bit = rng.integers(0, 2, people)
    known = {f"a{i:02d}": rng.integers(0, people // 20, people) for i in range(k)}
    how = Shown(side=BIT.side, gain=1 - 2 * differing)
    showing = {}
    for i in range(k):
        values = np.where(rng.random(people) < differing, 1 - bit, bit).astype(str)
        showing[f"c{i:02d}"] = Showing(values, ["0", "1"], how)
    return _showing(known, bit, showing, list(zip(known, showing, strict=True)))


def copies_5(k: int, seed: int, people: int) -> Structure:
    """The same, 5 % differing."""
    return copies(k, seed, people, differing=0.05)


def eights(k: int, seed: int, people: int) -> Structure:
    """Cells of 8 people, of which mostly one side or none is shown."""
    return everybody(k, seed, people, cell=8)


def skips(seed: int, people: int, k: int = 5) -> Structure:
    """Questions asked only of a tenth, who answered yes before."""
    rng = np.random.default_rng([5, seed])
    asked = rng.random(people) < 0.1
    columns = {"asked": asked.astype(int)}
    columns |= {f"q{i}": np.where(asked, rng.integers(0, 30, people), -1) for i in range(k)}
    tables: Tables = [("bit", c) for c in columns]
    return _of(columns, rng.integers(0, 2, people), tables, group=np.flatnonzero(asked))


def events(seed: int, people: int, k: int = 8) -> Structure:
    """Rare events, each of one in forty and with a kind: the same people have more of them."""
    rng = np.random.default_rng([6, seed])
    prone = rng.random(people) < 0.05
    columns = {
        f"e{i}": np.where(prone & (rng.random(people) < 0.5), rng.integers(0, 6, people), -1)
        for i in range(k)
    }
    tables: Tables = [("bit", c) for c in columns]
    return _of(columns, rng.integers(0, 2, people), tables, group=np.flatnonzero(prone))


def shared(seed: int, people: int, k: int = 4) -> Structure:
    """Several columns of four values told, all of which have the secret in them; tables with columns of their own."""
    rng = np.random.default_rng([7, seed])
    bit = rng.integers(0, 2, people)
    known = {f"a{i}": rng.integers(0, people // 30, people) for i in range(k)}
    values = ["p0", "p1", "q0", "q1"]
    side = {v: 2 * int(v[1]) - 1 for v in values}
    how = Shown(side=side, label={v: int(v[0] == "q") for v in values})
    showing = {}
    for i in range(k):
        other = rng.integers(0, 2, people)
        showing[f"s{i}"] = Showing(np.array(values)[2 * other + bit], values, how, other)
    return _showing(known, bit, showing, list(zip(known, showing, strict=True)))


def hierarchy(seed: int, people: int) -> Structure:
    """Places inside places, of three divisions; tables of the secret with each level."""
    rng = np.random.default_rng([8, seed])
    columns = {}
    for name in "abc":
        finest = rng.integers(0, people // 20, people)
        columns |= {f"{name}3": finest, f"{name}2": finest // 5, f"{name}1": finest // 25}
    return _of(columns, rng.integers(0, 2, people), [("bit", c) for c in columns])


def several_rows(seed: int, people: int, k: int = 4, rows: int = 3) -> Structure:
    """People of three rows each; the secret is the person's."""
    rng = np.random.default_rng([9, seed])
    n = people // rows
    bit, person = rng.integers(0, 2, n), np.repeat(np.arange(n), rows)
    columns = {f"c{i}": rng.integers(0, people // 40, n * rows) for i in range(k)}
    found = _of(columns, bit[person], [("bit", c) for c in columns])
    frame = found.frame.assign(**{PERSON: person + 100_000})
    known = frame[list(columns)]
    secret = replace(found.secret, known=known, person=person, truth=2 * bit - 1, most_rows=4)
    return replace(found, frame=frame, secret=secret, max_rows=4)


def triples(seed: int, people: int, k: int = 4) -> Structure:
    """Few columns, in all pairs and triples with the secret."""
    rng = np.random.default_rng([10, seed])
    columns = {f"c{i}": rng.integers(0, 12, people) for i in range(k)}
    tables: Tables = [tuple(sorted((*t, "bit"))) for w in (1, 2) for t in combinations(columns, w)]
    return _of(columns, rng.integers(0, 2, people), tables)


def fours(seed: int, people: int) -> Structure:
    """A table of four columns, and its triples and pairs."""
    rng = np.random.default_rng([11, seed])
    columns = {f"c{i}": rng.integers(0, 6, people) for i in range(4)}
    tables: Tables = [
        tuple(sorted((*t, "bit"))) for w in (1, 2, 3) for t in combinations(columns, w)
    ]
    return _of(columns, rng.integers(0, 2, people), tables)


def together_null(k: int, seed: int, people: int) -> Structure:
    """Columns that are null for half of the people, who are the secret; what they hold is of no interest."""
    rng = np.random.default_rng([12, seed])
    bit = rng.integers(0, 2, people)
    known = {f"a{i}": rng.integers(0, people // 20, people) for i in range(k)}
    values, how = ["x", "y", "z"], Shown(side={"x": 1, "y": 1, "z": 1, "null": -1})
    showing = {}
    for i in range(k):
        held = np.where(bit == 1, np.array(values)[rng.integers(0, 3, people)], None)
        showing[f"s{i}"] = Showing(held, values, how, nullable=True)
    return _showing(known, bit, showing, list(zip(known, showing, strict=True)))


def rare_codes(seed: int, people: int, k: int = 10) -> Structure:
    """Codes by Zipf's law: many of one person, most people in few."""
    rng = np.random.default_rng([13, seed])
    share = 1 / np.arange(1, 1_001)
    columns = {f"c{i}": rng.choice(1_000, people, p=share / share.sum()) for i in range(k)}
    return _of(columns, rng.integers(0, 2, people), [("bit", c) for c in columns])


def bands(seed: int, people: int) -> Structure:
    """Bands of three numbers: tables of the secret with the number and its bands, shifted against each other."""
    rng = np.random.default_rng([14, seed])
    columns = {}
    for name in "abc":
        finest = rng.integers(0, people // 40, people)
        columns |= {f"{name}{w}{s}": (finest + s) // w for w, s in ((1, 0), (2, 0), (2, 1), (4, 1))}
    return _of(columns, rng.integers(0, 2, people), [("bit", c) for c in columns])


def numbers(k: int, seed: int, people: int) -> Structure:
    """Numbers with hardly two alike, released as ranges."""
    rng = np.random.default_rng([15, seed])
    found = everybody(1, seed, people)
    data, names = found.frame[[PERSON, "bit"]].copy(), [f"c{i}" for i in range(k)]
    for name in names:
        data[name] = np.round(np.exp(rng.normal(9, 1, people))).astype(np.int64)
    columns = [found.columns[0], *(number(name) for name in names)]
    tables: Tables = [("bit", c) for c in names]
    secret = replace(found.secret, known=data[names])
    return replace(found, frame=data, columns=columns, builds=[tables], secret=secret)


def prefixes(k: int, seed: int, people: int) -> Structure:
    """Texts nobody declared, mostly of three people, released as prefixes."""
    rng = np.random.default_rng([17, k, seed])
    found = everybody(1, seed, people)
    data, names = found.frame[[PERSON, "bit"]].copy(), [f"c{i}" for i in range(k)]
    for name in names:
        data[name] = [f"x{code:05d}" for code in rng.integers(0, people // 3, people)]
    texts = [Column(name=n, kind="text", value_type="text", placeholder="(other)") for n in names]
    tables: Tables = [("bit", c) for c in names]
    secret = replace(found.secret, known=data[names])
    return replace(
        found, frame=data, columns=[found.columns[0], *texts], builds=[tables], secret=secret
    )


def skewed(seed: int, people: int) -> Structure:
    """Cells of very different sizes: values by a power law."""
    rng = np.random.default_rng([16, seed])
    share = 1 / np.arange(1, people // 40) ** 0.5
    columns = {f"c{i}": rng.choice(len(share), people, p=share / share.sum()) for i in range(5)}
    return _of(columns, rng.integers(0, 2, people), [("bit", c) for c in columns])


def beside_dp(seed: int, people: int) -> Structure:
    """The same tables once more in mode dp, with epsilon 4."""
    return replace(everybody(4, seed, people), ways="dp")


def split_builds(found: Structure, ways: str = "") -> Structure:
    """The same tables in two builds of one key; in two vintages, or added one by one."""
    tables = list(found.builds[0])
    half = len(tables) // 2
    builds = {
        "": [tables[:half], tables[half:]],
        "add": [tables[:half], *([t] for t in tables[half:])],
        "vintage": [tables, tables],
    }[ways]
    return replace(found, builds=builds, ways=ways)


CORE: Mapping[str, tuple[Callable[[int, int, int], Structure], Mapping[str, tuple[int, ...]]]] = {
    name: (make, {"standard": standard, "strict": strict})
    for name, make, standard, strict in (
        ("150 people alone have values in k columns", few, (4, 5, 10), (4, 5)),
        ("everybody, k columns, cells of 20", everybody, (4, 5), (3, 4)),
        ("the secret inside k recodes, 150 people", recodes, (4, 5), (8, 12)),
        ("k near copies, 2 % differing", copies, (4, 5, 6), (4, 5)),
        ("k near copies, 5 % differing", copies_5, (5, 6, 8), (5, 6)),
        ("k columns, cells of 8", eights, (3, 4), (4, 5)),
        ("k numbers, in ranges", numbers, (3, 4), (3, 4)),
        ("k columns null together", together_null, (4, 8), (8,)),
    )
}
"""By profile the k on both sides of where refusals begin."""
FURTHER: Mapping[str, Callable[[int, int], Structure]] = {
    "skip patterns: five questions of a tenth": skips,
    "sparse events of the same people": events,
    "four columns of four values share a secret": shared,
    "hierarchies of three levels, three of them": hierarchy,
    "people of three rows, four columns": several_rows,
    "triples of four columns": triples,
    "fours, triples and pairs of four columns": fours,
    "rare codes, ten columns": rare_codes,
    "nested and shifted bands": bands,
    "texts of three people, in three columns": lambda seed, people: prefixes(3, seed, people),
    "cells of 12 people, 4 columns": lambda seed, people: everybody(4, seed, people, cell=12),
    "cells of very different sizes, 5 columns": skewed,
    "dp beside sticky, 4 columns": beside_dp,
    "6 columns, in two builds of one key": lambda seed, people: split_builds(
        everybody(6, seed, people)
    ),
    "3 columns, in two vintages": lambda seed, people: split_builds(
        everybody(3, seed, people), "vintage"
    ),
    "3 columns, 3 further ones by add": lambda seed, people: split_builds(
        everybody(6, seed, people), "add"
    ),
}
