"""Record linkage: which synthetic record is likeliest to be a person's, though not all that is known agrees?

Takes a `Paired`, what an attacker knows, and a generator; gives a `Risk`. Fellegi and Sunter's model with weights
by EM (`engine.evaluation.risk.em`) on pairs that DuckDB counts (`engine.evaluation.risk.pairs`). Compared with
strangers (arXiv:2403.06595).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.evaluation.data.paired import Coded, Numbers, Paired
from engine.evaluation.data.sampling import positions, rows_of
from engine.evaluation.risk.attacker import Attacker
from engine.evaluation.risk.em import Estimate, estimate, posterior, weights
from engine.evaluation.risk.identification import is_aligned
from engine.evaluation.risk.pairs import (
    EQUAL,
    MOST_COMPARED,
    N_LEVELS,
    NEAR,
    Floats,
    Pairs,
    Sides,
    blocks,
    by_chance,
    counted,
    levels_of,
    nearness,
)
from engine.evaluation.risk.people import NO_STRANGER, against, alike, excess
from engine.evaluation.risk.pooled_linkage import pooled_columns, pooled_linkage
from engine.evaluation.risk.precision import Claims, best
from engine.evaluation.risk.records import holding, lacking
from engine.evaluation.score import WHOLE, HitRate, Risk, wilson

_NAME = "linkage"
_WORDS = (
    "The attacker knows people's quasi-identifiers, perhaps not all as the release has them, and links each person to "
    "the synthetic record that most likely is theirs: columns that seldom agree by chance count most. Links are "
    "claimed from that probability on that serves the attacker best."
)
_EXCESS = "excess_over_control"
_ONE_COLUMN = "no table has two compared columns, one of them outside the block"
_MOST_PAIRS = 2_500_000


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Links:
    """The best links of people: how sure, the chance that each is right in each sense, and right by a blind draw."""

    claims: Claims
    all_equal: Floats
    share_equal: Floats
    blind: Floats
    estimate: Estimate
    sides: Sides
    blocks: list[tuple[str, ...]]
    n_pairs: float


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Others:
    """How often the attack is right about people of the data and about strangers, under like conditions."""

    mine: HitRate
    rate: HitRate
    note: str


def linkage(paired: Paired, attacker: Attacker, rng: np.random.Generator) -> Risk:
    """How often the best link of a person, by match weight, is right.

    A link is right if its record was made from the person (`attacker.aligned`), else if it agrees in all secret columns
    of the table. People without a pair are not linked; among records of equal weight one is drawn.

    rng: Draws the people, and splits the original for the control where no control rows were given.

    Returns: Broken down by the compared columns, with their m, u and weights. Where no table has two of them
    beside a secret, tables are pooled (`engine.evaluation.risk.pooled_linkage`).
    """
    table, why = _chosen(paired, attacker)
    if why == _ONE_COLUMN and not attacker.linkage.block and not attacker.aligned:
        known, secrets = pooled_columns(paired, attacker)
        if secrets:
            return pooled_linkage(paired, known, secrets, attacker, rng)
    if table is None:
        return Risk(attack=_NAME, words=_WORDS, why_not={WHOLE: why})
    aligned = is_aligned(paired, attacker)
    links = _linked(paired, table, attacker, rng, aligned=aligned)
    rate = best(links.claims)
    if rate is None:
        none = "no person has a record that agrees in the block"
        return Risk(attack=_NAME, words=_WORDS, why_not={WHOLE: none})
    values = _values(links)
    drawn = links.claims.confidence >= _threshold(links.claims, rate[0].n)
    blind = wilson(float(links.blind[drawn].sum()), int(drawn.sum()))
    others = None if aligned else _control(paired, table, attacker, rng, links)
    why_not: dict[str, str] = {}
    note = ""
    if isinstance(others, str):
        why_not[_EXCESS] = note = others
    elif others is not None:
        values[_EXCESS], note = excess(others.mine, others.rate), others.note
    elif blind is not None:
        values[_EXCESS], note = excess(rate[0], blind), NO_STRANGER
    return Risk(
        attack=_NAME,
        words=_WORDS,
        rate=rate[0],
        baseline=blind,
        control=others.rate if isinstance(others, _Others) else None,
        values=values | {"correct": rate[0].value, "prediction_rate": rate[1]},
        breakdown=_by_column(links),
        why_not=why_not,
        notes=_notes(links, aligned=aligned),
        control_note=note,
    )


def _control(
    paired: Paired, table: Coded, attacker: Attacker, rng: np.random.Generator, links: _Links
) -> _Others | str:
    """The same attack on strangers, and on people of the data who are as many; or why there is none."""
    both = alike(paired, rng)
    mine, theirs = both.members.tables[table.columns], both.strangers.tables[table.columns]
    if why := lacking(both.strangers.original, theirs) or lacking(both.members.original, mine):
        return why
    # With control rows the attack itself is alike: how many people there are is nothing to it.
    if mine is not table:
        links = _linked(both.members, mine, attacker, rng, aligned=False)
    others = _linked(both.strangers, theirs, attacker, rng, aligned=False).claims
    own, stranger = best(links.claims), best(others)
    if own is None or stranger is None:
        return "no person, or no stranger, has a record that agrees in the block"
    note = f"control: {both.who}; {against(own[0], stranger[0])}"
    return _Others(mine=own[0], rate=stranger[0], note=note)


def _chosen(paired: Paired, attacker: Attacker) -> tuple[Coded | None, str]:
    """Table that people are linked to, or why there is none."""
    if not len(paired.original.n):
        return None, "the original has no rows"
    wanted = attacker.linkage.columns or attacker.quasi_identifiers
    table = holding(paired, wanted)
    if table is None:
        return None, "no table has a compared column and another one"
    if table.total == 0:
        return None, "the synthetic table has no rows"
    compared = [c for c in wanted if c in table.codes]
    if missing := [c for c in attacker.linkage.block if c not in compared]:
        listed = ", ".join(missing)
        return None, f"the columns of the block are not compared ones of the table: {listed}"
    if len(compared) <= len(attacker.linkage.block) or len(compared) < 2:
        return None, _ONE_COLUMN
    if len(compared) > MOST_COMPARED:
        return None, f"more than {MOST_COMPARED} columns are compared"
    return table, ""


def _linked(
    paired: Paired, table: Coded, attacker: Attacker, rng: np.random.Generator, *, aligned: bool
) -> _Links:
    """Link a sample of people."""
    wanted = attacker.linkage.columns or attacker.quasi_identifiers
    compared = tuple(c for c in dict.fromkeys(wanted) if c in table.codes)
    secrets = [c for c in table.columns if c not in compared]
    named = [c for c in secrets if c in attacker.targets] or secrets
    at = positions(len(paired.original.n), attacker.linkage.targets, rng)
    sides = Sides(
        people=rows_of(paired.original, at),
        table=table,
        rows=at if aligned else np.full(len(at), -1),
        compared=compared,
        secrets=tuple(named),
        near=nearness(paired, compared),
    )
    n_values = {c: len(paired.values[c]) for c in compared}
    passes = blocks(sides, attacker.linkage.block, most_pairs=_MOST_PAIRS)
    pairs = [counted(sides, block, n_values=n_values) for block in passes]
    chance = by_chance(sides, n_values)
    model = _model(sides, passes, pairs, chance)
    return _best_links(sides, passes, _once(sides, passes, pairs), model, aligned=aligned)


def _model(
    sides: Sides, passes: list[tuple[str, ...]], pairs_of: list[Pairs], chance: Floats
) -> Estimate:
    """Estimate m from the columns that a pass leaves free, u being that of all pairs, and the share of matches of all.

    A column that every pass blocks on tells nothing: its m is set to its u.
    """
    n = len(sides.compared)
    sums, times, steps, converged, shares = np.zeros((n, N_LEVELS)), np.zeros(n), 0, True, []
    n_levels = np.full(n, N_LEVELS, np.int64)
    for block, pairs in zip(passes, pairs_of, strict=True):
        free = [i for i, c in enumerate(sides.compared) if c not in block]
        if not len(pairs.n):
            continue
        pattern, inverse = np.unique(pairs.pattern, return_inverse=True)
        count = np.asarray(np.bincount(inverse.reshape(-1), pairs.n), np.float64)
        levels = levels_of(pattern, n)[:, free]
        # Nobody has more than one record.
        most = len(np.unique(pairs.person)) / count.sum()
        one = estimate(levels, count, n_levels[free], u=chance[free], most=most)
        sums[free] += one.m
        times[free] += 1
        steps, converged = steps + one.n_steps, converged and one.converged
        shares.append((block, one.share))
    m = np.where(times[:, None] > 0, sums / np.maximum(times, 1)[:, None], chance)
    return Estimate(
        m=m, u=chance, share=_overall(sides, shares, m, chance), n_steps=steps, converged=converged
    )


def _overall(
    sides: Sides, shares: list[tuple[tuple[str, ...], float]], m: Floats, u: Floats
) -> float:
    """Share of matches among all pairs, from those in blocks: agreement in the block has raised it."""
    odds = []
    for block, share in shares:
        at = [i for i, c in enumerate(sides.compared) if c in block]
        full = np.full((1, len(at)), EQUAL)
        raised = float(weights(full, m[at], u[at])[0]) if at else 0.0
        odds.append(np.log2(share / (1 - share)) - raised)
    middle = float(np.mean(odds)) if odds else -20.0
    return float(np.clip(1 / (1 + 2.0**-middle), 1e-12, 1 - 1e-7))


def _once(sides: Sides, passes: list[tuple[str, ...]], pairs_of: list[Pairs]) -> Pairs:
    """Put passes together; pairs of a later one that an earlier one has do not count again."""
    places = []
    for i, pairs in enumerate(pairs_of):
        levels = levels_of(pairs.pattern, len(sides.compared))
        again = np.zeros(len(pairs.n), np.bool_)
        for block in passes[:i]:
            at = [j for j, c in enumerate(sides.compared) if c in block]
            again |= (levels[:, at] == EQUAL).all(axis=1)
        places.append(np.flatnonzero(~again))

    def together(name: str) -> Floats:
        parts = [getattr(p, name)[at] for p, at in zip(pairs_of, places, strict=True)]
        return np.asarray(np.concatenate(parts), np.float64)

    return Pairs(
        person=together("person").astype(np.int64),
        pattern=together("pattern").astype(np.int64),
        n=together("n"),
        own=together("own"),
        all_equal=together("all_equal"),
        share_equal=together("share_equal"),
    )


def _best_links(
    sides: Sides,
    passes: list[tuple[str, ...]],
    pairs: Pairs,
    model: Estimate,
    *,
    aligned: bool,
) -> _Links:
    """Choose for each person the records of the highest weight."""
    n_people = len(sides.people.n)
    weight = weights(levels_of(pairs.pattern, len(sides.compared)), model.m, model.u)
    weight = np.round(weight, 9)  # sums in another order are the same weight
    top = np.full(n_people, -np.inf)
    np.maximum.at(top, pairs.person, weight)
    linked = np.flatnonzero(top > -np.inf)
    among = weight == top[pairs.person]

    def per_link(name: str, chosen: Numbers | slice) -> Floats:
        worth = getattr(pairs, name)[chosen]
        out = np.bincount(pairs.person[chosen], worth, minlength=n_people)
        return np.asarray(out[linked], np.float64)

    best_ones, every = np.flatnonzero(among), slice(None)
    right = "own" if aligned else "all_equal"
    drawn = {k: per_link(k, best_ones) for k in ("n", "own", "all_equal", "share_equal")}
    return _Links(
        claims=Claims(
            confidence=posterior(top[linked], model.share),
            right=drawn[right] / drawn["n"],
            n_people=n_people,
        ),
        all_equal=drawn["all_equal"] / drawn["n"],
        share_equal=drawn["share_equal"] / drawn["n"],
        blind=per_link(right, every) / per_link("n", every),
        estimate=model,
        sides=sides,
        blocks=passes,
        n_pairs=float(pairs.n.sum()),
    )


def _threshold(claims: Claims, n: int) -> float:
    """Confidence of the last of the n surest claims."""
    return float(np.sort(claims.confidence)[-n])


def _values(links: _Links) -> dict[str, float]:
    """Figures without regard to a threshold."""
    n = links.claims.n_people
    return {
        "correct_all": float(links.claims.right.sum()) / n,
        "linked": len(links.claims.right) / n,
        "secrets_equal": float(links.all_equal.mean()),
        "secrets_share": float(links.share_equal.mean()),
        "match_share": links.estimate.share,
        "pairs": links.n_pairs,
    }


def _by_column(links: _Links) -> pd.DataFrame:
    """What agreement in each column is worth."""
    m, u = links.estimate.m, links.estimate.u
    rows = []
    for i, name in enumerate(links.sides.compared):
        at = weights(np.arange(N_LEVELS)[:, None], m[i : i + 1], u[i : i + 1])
        rows.append((name, *m[i, [EQUAL, NEAR]], *u[i, [EQUAL, NEAR]], at[EQUAL], at[0]))
    names = ["column", "m", "m_near", "u", "u_near", "weight_equal", "weight_different"]
    return pd.DataFrame(rows, columns=names)


def _notes(links: _Links, *, aligned: bool) -> tuple[str, ...]:
    """What a reader must know."""
    sides = links.sides
    passes = " or in ".join(", ".join(block) or "nothing" for block in links.blocks)
    right = (
        "right: the record was made from the person (row i from row i)"
        if aligned
        else f"right: the record agrees in all secrets: {', '.join(sides.secrets)}"
    )
    never = "" if links.estimate.converged else "; EM stopped before it came to rest"
    return (
        f"{len(sides.people.n)} people are looked for in the table {', '.join(sides.table.columns)}",
        f"compared: {', '.join(sides.compared)}; pairs agree in {passes}{never}",
        right,
        "baseline: any record of the person's block, for the same people",
        "the threshold is chosen after the fact, for the attacker's best; the interval is of the links then claimed",
    )
