"""Record linkage: which synthetic record is likeliest to be a person's, though not all that is known agrees?

Fellegi and Sunter's model (JASA 64, 1969, doi:10.1080/01621459.1969.10501049) with weights by expectation maximisation
(Winkler, US Census Bureau, 2000) on pairs of people and records that DuckDB counts by how they agree: pairs are never
listed. A pattern of agreement is a whole number, two bits a column, the first column lowest: 0 differs, 1 near, 2
equal. Where no table has two known columns beside a secret, each table with one weighs how much likelier a record is to
be the person's, and the weights of all tables are added.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.attacks.inference import claims_of, guess, known_sets
from engine.evaluation.attacks.protocol import (
    EXCESS,
    INDEPENDENT,
    NO_NON_MEMBERS,
    Attacker,
    Claims,
    Control,
    Held,
    KeySet,
    best,
    best_holding,
    controlled,
    excess,
    no_control,
    pooled,
    shown_of,
    targets_of,
)
from engine.evaluation.attacks.records import is_row_by_row
from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    Floats,
    Numbers,
    covering,
    drawn,
    positions,
    totals,
)
from engine.evaluation.findings import Finding, Rate, not_computed, say, wilson
from engine.source import memory_connection

EQUAL, NEAR, N_LEVELS = 2, 1, 3
MOST_COMPARED = 31
"""Two bits each in a whole number of 64."""
MOST_PAIRS = 2_500_000
_MANY_VALUES, _NEAR_SHARE = 20, 50
_ONE_COLUMN = "no table has two compared columns, one of them outside the block"


# Expectation maximisation


_STEPS, _CLOSE, _SMALLEST, _RAREST = 1_000, 1e-7, 1e-7, 1e-4
_FIRST_SHARE, _FIRST_M = 0.1, 0.9


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Model:
    # m, u: shape (n_columns, n_levels): Probability of each level of agreement among matches, and other pairs.
    m: Floats
    u: Floats
    share: float  # Share of matches among the pairs
    converged: bool = True


def estimate(
    levels: Numbers, n: Floats, n_levels: Numbers, *, u: Floats | None = None, most: float = 1.0
) -> Model:
    """Estimate m, u and the share of matches from patterns, columns agreeing independently within a kind of pair.

    levels: Level of agreement of each column, 0 for none; the highest is full agreement.
    u: If given, u is not estimated.
    most: Largest share of matches that there can be. People of a kind agree in much; without a bound, EM may
        take pairs of a kind for matches where real ones are few.
    """
    seen: NDArray[np.bool_] = levels[:, :, None] == np.arange(int(n_levels.max(initial=2)))

    def normed(weight: Floats) -> Floats:
        sums = np.tensordot(weight, seen, axes=(0, 0))
        return np.asarray(sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-300), np.float64)

    m = np.zeros(
        seen.shape[1:]
    )  # at first full agreement is likely, the other levels share the rest
    for column, size in enumerate(n_levels):
        m[column, : size - 1] = (1 - _FIRST_M) / (size - 1)
        m[column, size - 1] = _FIRST_M
    now_u = normed(n) if u is None else u
    most = min(max(most, _SMALLEST), 1 - _SMALLEST)
    share, converged, step = min(_FIRST_SHARE, most), False, 0
    while step < _STEPS and not converged:
        step += 1
        match = posterior(weights(levels, m, now_u), share)
        new_m, new_u = normed(n * match), normed(n * (1 - match)) if u is None else now_u
        new_share = float(np.clip((n * match).sum() / n.sum(), _SMALLEST, most))
        moved = max(np.abs(new_m - m).max(), np.abs(new_u - now_u).max(), abs(new_share - share))
        m, now_u, share, converged = new_m, new_u, new_share, bool(moved < _CLOSE)
    return Model(m=m, u=now_u, share=share, converged=converged)


def weights(levels: Numbers, m: Floats, u: Floats) -> Floats:
    """The match weight of patterns, log2 of m / u summed over the columns; no value is known so well that it never
    differs."""
    ratio = np.log2(np.maximum(m, _RAREST)) - np.log2(np.maximum(u, _SMALLEST))
    return np.asarray(ratio[np.arange(levels.shape[1]), levels].sum(axis=1), np.float64)


def posterior(weight: Floats, share: float) -> Floats:
    """The probability that pairs of a weight match, where a share of all pairs do."""
    odds = np.log2(share / (1 - share)) + weight
    return np.asarray(1 / (1 + np.exp2(-np.clip(odds, -500, 500))), np.float64)


# Pairs


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sides:
    people: Coded
    table: Coded
    rows: Numbers  # shape (n_people,): Row of the table that was made from each person, or -1
    compared: tuple[str, ...]
    secrets: tuple[str, ...]  # Columns that a right link agrees in
    # Ordered columns: how far codes of near values lie apart at most; 0: only equal ones count.
    near: dict[str, int]


def nearness(aligned: Aligned, compared: Collection[str]) -> dict[str, int]:
    """How far codes of near values lie apart: numbers and times of many values, a fiftieth of these; else 0."""
    out = {}
    for name in compared:
        values = aligned.values[name]
        ordered = values.dtype.kind in "fM" and len(values) > _MANY_VALUES
        out[name] = max(len(values) // _NEAR_SHARE, 1) if ordered else 0
    return out


def counted(sides: Sides, block: Collection[str], *, n_values: dict[str, int]) -> pd.DataFrame:
    """Count the pairs that agree in the columns of a block, by person and pattern.

    n_values: Values of each compared column; its blank, coded after the last, is near to none.

    `own`: pairs whose record was made from the person; `all_equal`: that agree in all secrets; `share_equal`: share
    of secrets that agree, summed over the pairs.
    """
    parts = ["0::BIGINT"]
    for i, name in enumerate(sides.compared):
        level = f"WHEN p.k{i} = r.k{i} THEN {EQUAL}"
        if width := sides.near[name]:
            filled = f"p.k{i} < {n_values[name]} AND r.k{i} < {n_values[name]}"
            level += f" WHEN abs(p.k{i} - r.k{i}) <= {width} AND {filled} THEN {NEAR}"
        parts.append(f"((CASE {level} ELSE 0 END)::BIGINT << {2 * i})")
    conditions = [f"p.k{i} = r.k{i}" for i, c in enumerate(sides.compared) if c in block]
    n_secrets = len(sides.secrets)
    n_equal = " + ".join(f"(p.s{i} = r.s{i})::INTEGER" for i in range(n_secrets)) or "0"

    def named(table: Coded, **more: Numbers) -> pd.DataFrame:
        known = {f"k{i}": table.codes[c] for i, c in enumerate(sides.compared)}
        return pd.DataFrame(
            {**more, **known, **{f"s{i}": table.codes[c] for i, c in enumerate(sides.secrets)}}
        )

    with memory_connection() as con:
        con.register(
            "people", named(sides.people, id=np.arange(len(sides.people.n)), own=sides.rows)
        )
        con.register(
            "records", named(sides.table, id=np.arange(len(sides.table.n)), n=sides.table.n)
        )
        return con.execute(
            f"""
            SELECT p.id AS person, {" | ".join(parts)} AS pattern, sum(r.n)::DOUBLE AS n,
                   sum(r.n * (p.own = r.id)::INTEGER)::DOUBLE AS own,
                   sum(r.n * (({n_equal}) = {n_secrets})::INTEGER)::DOUBLE AS all_equal,
                   sum(r.n * ({n_equal}))::DOUBLE / {max(n_secrets, 1)} AS share_equal
            FROM people p JOIN records r ON {" AND ".join(conditions) or "true"}
            GROUP BY ALL ORDER BY ALL
            """
        ).df()


def levels_of(pattern: Numbers | pd.Series, n_columns: int) -> Numbers:
    return (np.asarray(pattern, np.int64)[:, None] >> (2 * np.arange(n_columns))) & 3


def by_chance(sides: Sides, n_values: dict[str, int]) -> Floats:
    """Share of all pairs, blocked or not, at each level of each column: shape (n_columns, 3). Exact."""
    out = np.zeros((len(sides.compared), N_LEVELS))
    for i, name in enumerate(sides.compared):
        size = n_values[name] + 1
        left = np.bincount(sides.people.codes[name], minlength=size) / len(sides.people.n)
        right = totals(sides.table.codes[name], sides.table.n, size) / sides.table.total
        equal = float(left @ right)
        width, values = sides.near[name], np.arange(n_values[name])
        total = np.append(0.0, np.cumsum(right[:-1]))
        low, high = np.maximum(values - width, 0), np.minimum(values + width + 1, len(values))
        near = float(left[:-1] @ (total[high] - total[low] - right[:-1])) if width else 0.0
        out[i] = max(1 - equal - near, 0.0), max(near, 0.0), equal
    return out


def n_pairs(sides: Sides, block: Collection[str]) -> int:
    names = list(block)
    left, right = (
        pd.DataFrame({c: t.codes[c] for c in block}).value_counts(names)
        for t in (sides.people, sides.table)
    )
    both = left.to_frame("l").join(right.rename("r"))
    return int((both["l"] * both["r"]).sum())


def blocks(sides: Sides, wanted: Sequence[str]) -> list[tuple[str, ...]]:
    """Sets of columns that pairs must agree in, in one or two passes, so that there are not too many pairs."""
    if wanted:
        return [tuple(wanted)]
    if len(sides.people.n) * len(sides.table.n) <= MOST_PAIRS:
        return [()]

    def block(columns: Sequence[str]) -> tuple[str, ...]:
        """Columns, added one by one, until the pairs are few; the least that is enough, of the options with most."""
        chosen: tuple[str, ...] = ()
        while len(chosen) < len(columns) - 1:  # one column at least is left to be compared
            options = {c: n_pairs(sides, (*chosen, c)) for c in columns if c not in chosen}
            if enough := {c: n for c, n in options.items() if n <= MOST_PAIRS}:
                return (*chosen, max(enough, key=lambda c: enough[c]))
            chosen = (*chosen, min(options, key=lambda c: options[c]))
        return chosen

    first = block(sides.compared)
    rest = [c for c in sides.compared if c not in first]
    second = block(rest) if len(rest) > 1 else ()
    return [first, second] if second and n_pairs(sides, second) <= MOST_PAIRS else [first]


# Links


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Links:
    """The best links of people: how sure, the chance that each is right in each sense, and right by a blind draw."""

    claims: Claims
    all_equal: Floats
    share_equal: Floats
    blind: Floats
    model: Model
    sides: Sides
    passes: list[tuple[str, ...]]
    n_pairs: float


def linkage(held: Held, attacker: Attacker, rng: np.random.Generator) -> Finding:
    """How often the best link of a person, by match weight, is right.

    A link is right if its record was made from the person (`attacker.aligned`), else if it agrees in all secret columns
    of the table. People without a pair are not linked; among records of equal weight one is drawn. Broken down by the
    compared columns, with their m, u and weights.
    """
    aligned = held.aligned
    table = _chosen(aligned, attacker)
    if table == _ONE_COLUMN and not attacker.linkage.block and not attacker.aligned:
        # The known columns, and those that tables predict from two or more of them, though from none alone.
        known = shown_of(aligned, attacker.linkage.columns or attacker.quasi_identifiers)
        every = attacker.model_copy(update={"targets": ()})
        wanted = targets_of(aligned, attacker, known) or targets_of(aligned, every, known)
        by_secret = {t: {c for keys in known_sets(aligned, t, known) for c in keys} for t in wanted}
        if secrets := tuple(t for t in wanted if len(by_secret[t]) > 1):
            return _pooled_linkage(aligned, known, secrets, attacker, rng)
    if isinstance(table, str):
        return not_computed("linkage", table)
    row_by_row = is_row_by_row(aligned, attacker)
    links = _linked(aligned, table, attacker, rng, row_by_row=row_by_row)
    found = best(links.claims)
    if found is None:
        return not_computed("linkage", "no person has a record that agrees in the block")
    rate, prediction_rate = found
    surest = links.claims.confidence >= np.sort(links.claims.confidence)[-rate.n]
    blind = wilson(float(links.blind[surest].sum()), int(surest.sum()))

    def best_right(side: Aligned) -> Rate | str:
        same = side.tables[table.columns]
        if why := no_control(side.original, same):
            return why
        found = best(_linked(side, same, attacker, rng, row_by_row=False).claims)
        none = "no person, or no non-member, has a record that agrees in the block"
        return none if found is None else found[0]

    if row_by_row:
        gain = excess(rate, blind) if blind is not None else "there are no records"
        control = Control(None, gain, NO_NON_MEMBERS)
    else:
        control = controlled(aligned, rng, best_right)
    n, right, sides, model = links.claims.n_people, links.claims.right, links.sides, links.model
    figures = {
        "correct": rate.value,
        "prediction_rate": prediction_rate,
        "correct_all": right.sum() / n,
        "linked": len(right) / n,
        "secrets_equal": links.all_equal.mean(),
        "secrets_share": links.share_equal.mean(),
        "match_share": model.share,
        "pairs": links.n_pairs,
        EXCESS: control.gain,
    }
    by_column = []
    for i, name in enumerate(sides.compared):
        at = weights(np.arange(N_LEVELS)[:, None], model.m[i : i + 1], model.u[i : i + 1])
        levels = (*model.m[i, [EQUAL, NEAR]], *model.u[i, [EQUAL, NEAR]])
        by_column.append((name, *levels, at[EQUAL], at[0]))
    heads = ["column", "m", "m_near", "u", "u_near", "weight_equal", "weight_different"]
    passes = " or in ".join(", ".join(block) or "nothing" for block in links.passes)
    never = "" if model.converged else "; EM stopped before it came to rest"
    return Finding(
        "linkage",
        figures,
        pd.DataFrame(by_column, columns=heads),
        rate=rate,
        baseline=blind,
        control=control.rate,
        control_note=control.note,
        notes=(
            f"{len(sides.people.n)} people are looked for in the table {', '.join(table.columns)}",
            f"compared: {', '.join(sides.compared)}; pairs agree in {passes}{never}",
            "right: the record was made from the person (row i from row i)"
            if row_by_row
            else f"right: the record agrees in all secrets: {', '.join(sides.secrets)}",
            "baseline: any record of the person's block, for the same people",
            say("linkage", "threshold", claimed="the links"),
        ),
    )


def _chosen(aligned: Aligned, attacker: Attacker) -> Coded | str:
    """The table whose records people are linked to, or why there is none."""
    if not len(aligned.original.n):
        return "the original has no rows"
    wanted = attacker.linkage.columns or attacker.quasi_identifiers
    table = best_holding(aligned, wanted)
    if table is None:
        return "no table has a compared column and another one"
    if table.total == 0:
        return "the synthetic table has no rows"
    compared = [c for c in wanted if c in table.codes]
    if missing := [c for c in attacker.linkage.block if c not in compared]:
        return f"the columns of the block are not compared ones of the table: {', '.join(missing)}"
    if len(compared) <= len(attacker.linkage.block) or len(compared) < 2:
        return _ONE_COLUMN
    if len(compared) > MOST_COMPARED:
        return f"more than {MOST_COMPARED} columns are compared"
    return table


def _linked(
    aligned: Aligned,
    table: Coded,
    attacker: Attacker,
    rng: np.random.Generator,
    *,
    row_by_row: bool,
) -> _Links:
    if not row_by_row:
        table = table.rows(np.flatnonzero(table.n > 0))  # a row that counts 0 is no record
    wanted = attacker.linkage.columns or attacker.quasi_identifiers
    compared = tuple(c for c in dict.fromkeys(wanted) if c in table.codes)
    secrets = [c for c in table.columns if c not in compared]
    at = positions(len(aligned.original.n), attacker.linkage.targets, rng)
    sides = Sides(
        people=aligned.original.rows(at),
        table=table,
        rows=at if row_by_row else np.full(len(at), -1),
        compared=compared,
        secrets=tuple([c for c in secrets if c in attacker.targets] or secrets),
        near=nearness(aligned, compared),
    )
    n_values = {c: len(aligned.values[c]) for c in compared}
    passes = blocks(sides, attacker.linkage.block)
    each = [counted(sides, block, n_values=n_values) for block in passes]
    model = _model(sides, passes, each, by_chance(sides, n_values))
    parts = []
    for i, one in enumerate(
        each
    ):  # pairs of a later pass that an earlier one has do not count again
        levels = levels_of(one["pattern"], len(compared))
        again = np.zeros(len(one), np.bool_)
        for block in passes[:i]:
            in_block = [j for j, c in enumerate(compared) if c in block]
            again |= (levels[:, in_block] == EQUAL).all(axis=1)
        parts.append(one[~again])
    pairs = pd.concat(parts, ignore_index=True)
    weight = weights(levels_of(pairs["pattern"], len(compared)), model.m, model.u)
    pairs["weight"] = np.round(weight, 9)  # sums in another order are the same weight
    by_person = pairs.groupby("person")
    top = by_person["weight"].max()
    first = pairs[pairs["weight"] == pairs["person"].map(top)].groupby("person")
    of_best = first[["n", "own", "all_equal", "share_equal"]].sum()
    right = "own" if row_by_row else "all_equal"
    every = by_person[["n", right]].sum()
    return _Links(
        claims=Claims(
            confidence=posterior(top.to_numpy(np.float64), model.share),
            right=(of_best[right] / of_best["n"]).to_numpy(np.float64),
            n_people=len(at),
        ),
        all_equal=(of_best["all_equal"] / of_best["n"]).to_numpy(np.float64),
        share_equal=(of_best["share_equal"] / of_best["n"]).to_numpy(np.float64),
        blind=(every[right] / every["n"]).to_numpy(np.float64),
        model=model,
        sides=sides,
        passes=passes,
        n_pairs=float(pairs["n"].sum()),
    )


def _model(
    sides: Sides, passes: list[tuple[str, ...]], each: list[pd.DataFrame], chance: Floats
) -> Model:
    """Estimate m from the columns that a pass leaves free, u being that of all pairs, and the share of matches of all.

    A column that every pass blocks on is uninformative: its m is set to its u. Agreement in the block has raised the
    share of matches there.
    """
    n = len(sides.compared)
    sums, times, converged, odds = np.zeros((n, N_LEVELS)), np.zeros(n), True, []
    for block, pairs in zip(passes, each, strict=True):
        free = [i for i, c in enumerate(sides.compared) if c not in block]
        if not len(pairs):
            continue
        count = pairs.groupby("pattern")["n"].sum()
        levels = levels_of(count.index.to_numpy(), n)[:, free]
        # Nobody has more than one record.
        most = pairs["person"].nunique() / count.sum()
        n_levels = np.full(len(free), N_LEVELS)
        one = estimate(levels, count.to_numpy(np.float64), n_levels, u=chance[free], most=most)
        sums[free] += one.m
        times[free] += 1
        converged = converged and one.converged
        odds.append((block, np.log2(one.share / (1 - one.share))))
    m = np.where(times[:, None] > 0, sums / np.maximum(times, 1)[:, None], chance)
    overall = []
    for block, of_block in odds:
        at = [i for i, c in enumerate(sides.compared) if c in block]
        raised = weights(np.full((1, len(at)), EQUAL), m[at], chance[at])[0] if at else 0.0
        overall.append(of_block - raised)
    middle = float(np.mean(overall)) if overall else -20.0
    share = float(np.clip(1 / (1 + 2.0**-middle), 1e-12, 1 - 1e-7))
    return Model(m=m, u=chance, share=share, converged=converged)


# Tables pooled


def _pooled_linkage(
    aligned: Aligned, known: KeySet, secrets: KeySet, attacker: Attacker, rng: np.random.Generator
) -> Finding:
    """How often what all tables together say of a person is right; a link is a claim about one secret column."""
    claimed = _claimed(aligned, known, secrets, attacker, rng)
    claims = pooled([one for one, _, _ in claimed.values()])
    found = best(claims)
    if found is None:
        return not_computed("linkage", "the tables with known columns have no rows")
    rate, prediction_rate = found
    blind = np.concatenate([blind for _, blind, _ in claimed.values()])
    surest = blind[claims.confidence >= np.sort(claims.confidence)[-rate.n]]
    right = np.stack([one.right for one, _, _ in claimed.values()])

    def best_right(side: Aligned) -> Rate | str:
        if missing := [c for c in (*known, *secrets) if c not in side.original.codes]:
            return f"the control rows lack {', '.join(missing)}"
        claimed = _claimed(side, known, secrets, attacker, rng) if len(side.original.n) else {}
        found = best(pooled([one for one, _, _ in claimed.values()]))
        return "there are too few rows for a control" if found is None else found[0]

    control = controlled(aligned, rng, best_right)
    figures = {
        "correct": rate.value,
        "prediction_rate": prediction_rate,
        "correct_all": right.mean(),
        "linked": 1,
        "secrets_equal": right.all(axis=0).mean(),
        "secrets_share": right.mean(),
        "match_share": say("linkage", "no_pairs"),
        "pairs": say("linkage", "no_pairs"),
        EXCESS: control.gain,
    }
    by_secret = [
        (name, n_tables, float(one.right.mean()), float(blind.mean()))
        for name, (one, blind, n_tables) in claimed.items()
    ]
    n_people = right.shape[1]
    return Finding(
        "linkage",
        figures,
        pd.DataFrame(by_secret, columns=["column", "tables", "right", "baseline"]),
        rate=rate,
        baseline=wilson(float(surest.sum()), len(surest)),
        control=control.rate,
        control_note=control.note,
        notes=(
            say("linkage", "pooled", people=n_people, known=", ".join(known)),
            "baseline: any record of the tables, for the same claims",
            INDEPENDENT.format("claims"),
            say("linkage", "threshold", claimed="what is"),
        ),
    )


def _claimed(
    aligned: Aligned, known: KeySet, secrets: KeySet, attacker: Attacker, rng: np.random.Generator
) -> dict[str, tuple[Claims, Floats, int]]:
    """Claims about each secret of a sample of people, the chance that any record has their value, and tables read."""
    people = drawn(aligned.original, attacker.linkage.targets, rng)
    out = {}
    for name in secrets:
        found, table = guess(aligned, people, name, known), covering(aligned, [name])
        if found is not None and table is not None:
            truth = people.codes[name]
            n = totals(table.codes[name], table.n, int(truth.max()) + 1)
            blind = np.asarray(n[truth] / n.sum(), np.float64)
            out[name] = claims_of(found, people, name), blind, len(found.read)
    return out
