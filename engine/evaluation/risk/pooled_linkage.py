"""Record linkage where no table has two of the known columns beside a secret: what all tables say, added up.

Takes a `Paired`, what an attacker knows, and a generator; gives a `Risk` of the attack "linkage". Each table with one
known column weighs how much likelier a record is to be the person's, and the weights of all tables are added: a
match is a record with the right secret, and the weight of a column is log P(column | match) / P(column), as Fellegi and
Sunter have it (doi:10.1080/01621459.1969.10501049). Tables are joined as `engine.evaluation.risk.several` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.errors import InternalError
from engine.evaluation.data.paired import Paired, covering
from engine.evaluation.data.sampling import positions, rows_of
from engine.evaluation.risk.attacker import Attacker
from engine.evaluation.risk.matching import KeySet, shown_of, targets_of
from engine.evaluation.risk.people import alike, excess
from engine.evaluation.risk.precision import Claims, best, pooled
from engine.evaluation.risk.several import Floats, chances, known_sets
from engine.evaluation.score import HitRate, Risk, wilson

_WORDS = (
    "The attacker knows people's quasi-identifiers. No record of the release has two of them beside a further column: "
    "each table tells how likely each value is, and what all tables say is put together. The likeliest value is "
    "claimed, from that probability on that serves the attacker best."
)
_NO_PAIRS = "tables were pooled: no pairs of people and records were compared"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Told:
    """What is claimed of one column of people."""

    claims: Claims
    blind: Floats  # shape (n_people,): Chance that any record of the tables has the person's value
    n_tables: int  # Read


def pooled_columns(paired: Paired, attacker: Attacker) -> tuple[KeySet, KeySet]:
    """Return the known columns, and those that tables tell from two or more of them, though none alone does."""
    known = shown_of(paired, attacker.linkage.columns or attacker.quasi_identifiers)
    wanted = targets_of(paired, attacker, known) or targets_of(
        paired, attacker.model_copy(update={"targets": ()}), known
    )
    told = {t: {c for keys in known_sets(paired, t, known) for c in keys} for t in wanted}
    return known, tuple(t for t in wanted if len(told[t]) > 1)


def pooled_linkage(
    paired: Paired,
    known: KeySet,
    secrets: KeySet,
    attacker: Attacker,
    rng: np.random.Generator,
) -> Risk:
    """How often what all tables together say of a person is right; a link is a claim about one secret column.

    known, secrets: As `pooled_columns` gives them; at least one secret.
    attacker: `linkage.targets`: people who are looked for at most.
    """
    told = _told(paired, known, secrets, attacker, rng)
    claims = pooled([one.claims for one in told.values()])
    found = best(claims)
    if found is None:
        raise InternalError("somebody is looked for, and there is a secret: there are claims")
    rate, share = found
    blind = np.concatenate([one.blind for one in told.values()])
    drawn = blind[claims.confidence >= np.sort(claims.confidence)[-rate.n]]
    values = {"correct": rate.value, "prediction_rate": share, "linked": 1.0}
    right = np.stack([one.claims.right for one in told.values()])
    values |= {
        "correct_all": float(right.mean()),
        "secrets_share": float(right.mean()),
        "secrets_equal": float(right.all(axis=0).mean()),
    }
    why_not = dict.fromkeys(("match_share", "pairs"), _NO_PAIRS)
    others, note = _control(paired, known, secrets, attacker, rng)
    if others is None:
        why_not["excess_over_control"] = note
    else:
        values["excess_over_control"] = excess(*others)
    return Risk(
        attack="linkage",
        words=_WORDS,
        rate=rate,
        baseline=wilson(float(drawn.sum()), len(drawn)),
        control=None if others is None else others[1],
        values=values,
        breakdown=_by_secret(told),
        why_not=why_not,
        notes=(
            f"{right.shape[1]} people are looked for; no table has two of {', '.join(known)} beside a further column: "
            "what all tables say is put together, and a link is a claim about one column",
            "baseline: any record of the tables, for the same claims",
            "the interval takes claims about several columns of a person as independent, which they are not",
            "the threshold is chosen after the fact, for the attacker's best; the interval is of what is then claimed",
        ),
        control_note=note,
    )


def _told(
    paired: Paired, known: KeySet, secrets: KeySet, attacker: Attacker, rng: np.random.Generator
) -> dict[str, _Told]:
    """Claim each secret of a sample of people; those whose tables have no rows are left out."""
    at = positions(len(paired.original.n), attacker.linkage.targets, rng)
    people = rows_of(paired.original, at)
    out = {}
    for name in secrets:
        found, table = chances(paired, people, name, known), covering(paired, [name])
        if found is None or table is None:
            continue
        chosen = found.worth.argmax(axis=1)
        truth = people.codes[name]
        n = np.bincount(table.codes[name], table.n.astype(np.float64), minlength=truth.max() + 1)
        out[name] = _Told(
            claims=Claims(
                confidence=found.worth[np.arange(len(chosen)), chosen],
                right=(found.values[chosen] == truth).astype(np.float64),
                n_people=len(truth),
            ),
            blind=np.asarray(n[truth] / n.sum(), np.float64),
            n_tables=len(found.read),
        )
    return out


def _control(
    paired: Paired, known: KeySet, secrets: KeySet, attacker: Attacker, rng: np.random.Generator
) -> tuple[tuple[HitRate, HitRate] | None, str]:
    """The same attack on as many people of the data, and on strangers; or why there is none."""
    both = alike(paired, rng)
    if missing := [c for c in (*known, *secrets) if c not in both.strangers.original.codes]:
        return None, f"the control rows lack {', '.join(missing)}"
    if not len(both.strangers.original.n) or not len(both.members.original.n):
        return None, "there are too few rows for a control"
    sides = [
        best(pooled([one.claims for one in _told(side, known, secrets, attacker, rng).values()]))
        for side in (both.members, both.strangers)
    ]
    if sides[0] is None or sides[1] is None:
        return None, "there are too few rows for a control"
    return (sides[0][0], sides[1][0]), f"control: {both.who}"


def _by_secret(told: dict[str, _Told]) -> pd.DataFrame:
    """What is claimed of each column, of all people."""
    return pd.DataFrame(
        [
            (name, one.n_tables, float(one.claims.right.mean()), float(one.blind.mean()))
            for name, one in told.items()
        ],
        columns=["column", "tables", "right", "baseline"],
    )
