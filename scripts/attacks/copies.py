"""The cloning attack by relabelled copies: columns that name the same groups anew, each perhaps a fresh look at them.

Observers. A column A names groups of 26 people, the first of whom is a victim whose B is the secret; the attacker
knows the 25 others, all with B = 0. Every copy of A calls each group by another name. The tables (copy, B) show the
same sets of people again. A likelihood-ratio attacker is trained on half of the groups, under keys of their own, and
scored on the other half. Copies are declared in the spec, left for the engine to find, or, as a control, all measured.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from attacks.cloning import KNOWN, Rate, likelihood_ratio
from attacks.trials import Trial, trial_of_spec
from engine.schema import BoolArray, Column, ColumnSet, FloatArray, Int64Array
from engine.source import begin_charges
from engine.source.detection import make_spec

How = Literal["declared", "found", "apart"]
NAMES = 1_024
"""Names that a copy may give to a group: the synthetic ones are among them too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _World:
    """Made-up rows, and what every copy calls each group."""

    frame: pd.DataFrame
    secret: BoolArray
    names: dict[str, Int64Array]


def copy_accuracy(
    copies: int, *, how: How, releases: int = 16, groups: int = 128, seed: int = 0
) -> Rate:
    """Run the attack.

    Parameters
    ----------
    copies : int
        Relabelled copies of A beside A.
    how : str
        "declared": the spec says that A determines them and they determine A. "found": the engine finds them. "apart":
        the control, all are measured as if they were other columns.
    releases : int
        Each under a key of its own; even. The first half trains, the second is scored.
    groups : int
        Groups in each release, each with a victim of its own.
    """
    seen, secrets = [], []
    for number in range(releases):
        world = _world(copies, groups, np.random.default_rng([seed, number]))
        trial = _trial(world, how, 1 + number + 1_000 * seed)
        seen.append(_features(world, trial))
        secrets.append(world.secret)
    x, secret = np.concatenate(seen), np.concatenate(secrets)
    # With all figures, and with the two that theory looks at: the better one counts.
    tried = [likelihood_ratio(part, secret) for part in (x, x[:, :2])]
    return max(tried, key=lambda rate: rate.hits)


def _world(copies: int, groups: int, rng: np.random.Generator) -> _World:
    """Rows of one release."""
    secret = rng.random(groups) < 0.5
    group = np.repeat(np.arange(groups), KNOWN + 1)
    b = np.zeros(len(group), dtype=np.int64)
    b[:: KNOWN + 1] = secret
    names = {"a": np.arange(groups)}
    names |= {f"c{i:02d}": rng.permutation(NAMES)[:groups] for i in range(copies)}
    columns = {"b": b, **{name: of[group] for name, of in names.items()}}
    return _World(frame=pd.DataFrame(columns), secret=secret, names=names)


def _trial(world: _World, how: How, number: int) -> Trial:
    """What is published of it."""
    with tempfile.TemporaryDirectory() as folder:
        key, path = Path(folder) / "key", Path(folder) / "people.parquet"
        key.write_bytes(number.to_bytes(32, "little"))
        key.chmod(0o600)
        begin_charges(key)
        world.frame.to_parquet(path)
        columns = [Column(name=c, kind="integer", value_type="integer") for c in world.frame]
        if how == "declared":
            others = set(world.names)
            columns = [
                replace(c, determines=tuple(sorted(others - {c.name}))) if c.name in others else c
                for c in columns
            ]
        tables = [table for c in world.names for table in ([c], ["b", c])]
        spec = make_spec(path, tables=[["b"], *tables], key=key, columns=columns, entities=[])
        return trial_of_spec(spec, apart=how == "apart")


def _features(world: _World, trial: Trial) -> FloatArray:
    """What is seen of each group: its two cells with B, and its size, by A and on average over all columns."""
    seen = [
        np.column_stack(
            [*(_counts(trial, name, called, b) for b in (0, 1)), _sizes(trial, name, called)]
        )
        for name, called in world.names.items()
    ]
    means = np.mean(seen, axis=0)
    return np.column_stack([means[:, :2], seen[0], means])


def _counts(trial: Trial, name: str, called: Int64Array, b: int) -> FloatArray:
    """Rows of each group that have this B, by one column's table."""
    columns: ColumnSet = tuple(sorted(("b", name)))
    table = trial.tables[columns]
    codes = {c: trial.supports[c].grid[table.codes[:, j]] for j, c in enumerate(columns)}
    out = np.zeros(NAMES)
    out[codes[name][codes["b"] == b]] = table.n[codes["b"] == b]
    return out[called]


def _sizes(trial: Trial, name: str, called: Int64Array) -> FloatArray:
    """Rows of each group, by one column's own table."""
    table = trial.tables[name,]
    out = np.zeros(NAMES)
    out[trial.supports[name].grid[table.codes[:, 0]]] = table.n
    return out[called]
