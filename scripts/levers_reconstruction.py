"""Measure levers against who solves a small group: layers of noise set apart, and swapping.

Usage: .venv/bin/python scripts/levers_reconstruction.py [--keys N] [--record]     (10 keys; about 10 minutes)

An even bit of 150 people among 6,000 is solved from tables (flag, a column of 8 values, bit). Layers: of 10 different
columns, of 5, and of 5 of which each is there 8 times under other labels. Buckets of copies hold the same people, so
the layer of sets is the same in all of them and cannot be averaged away. Swapping: the bit is exchanged among people
who agree in the flag, those whom it singles out first, or nobody first. Beside it other thresholds and noise.
"""

from __future__ import annotations

import argparse

import numpy as np
from attacks.predicted import group_of, solved
from attacks.trials import VINTAGE, key_of, trial_of_rows
from measured import add_option, command_line, markdown, record

from engine.mechanism import EntitySets, StickyDraws
from engine.params import PrivacyParams
from engine.schema import ColumnSet, Int64Array, UInt8Array
from engine.source.swapping.partners import partners, rarity_of

LAYERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 4))
"""Standard deviations of the layer of labels and of that of sets."""
PEOPLE, COLUMNS, FEW, COPIES = 150, 10, 5, 8
RATES = (0.0, 0.01, 0.05, 0.2)
"""Share of all 6,000 that are exchanged."""
TABLES = (5, 20, 40)
OTHERS = ((12, 1), (20, 1), (5, 2), (20, 2), (5, 4))
"""Mean thresholds and standard deviations of both layers."""


class Apart(StickyDraws):
    """Draws with a layer of labels as wide as `params` says, and a layer of sets of another width."""

    def __init__(self, number: int, label: int, of_sets: int) -> None:
        super().__init__(key_of(number), VINTAGE, PrivacyParams(layer_sd=label))
        self._of_sets = StickyDraws(key_of(number), VINTAGE, PrivacyParams(layer_sd=of_sets))

    def set_noise(self, sets: EntitySets, log2_scale: int) -> Int64Array:
        """Noise keyed by the entity set."""
        return self._of_sets.set_noise(sets, log2_scale)

    def label_noise(
        self,
        columns: ColumnSet,
        kind: UInt8Array,
        level: UInt8Array,
        index: Int64Array,
        log2_scale: int,
    ) -> Int64Array:
        """Noise keyed by column set and ranges."""
        return super().label_noise(columns, kind, level, index, log2_scale)


def right(codes: dict[str, np.ndarray], number: int, layers: tuple[int, int]) -> float:
    """Share of bits that are solved right."""
    wide = [("bit", name, "flag") for name in _columns(codes)]
    trial = trial_of_rows(codes, wide, number, draws=Apart(number, *layers))
    return solved(trial, codes, PEOPLE)


def with_copies(codes: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """The few columns, each several times under other labels."""
    rng = np.random.default_rng(seed)
    out = {"flag": codes["flag"], "bit": codes["bit"]}
    for name in _columns(codes)[:FEW]:
        out |= {f"{name}x{i}": rng.permutation(8)[codes[name]] for i in range(COPIES)}
    return out


def exchanged(
    codes: dict[str, np.ndarray], number: int, rate: float, *, is_targeted: bool
) -> dict[str, np.ndarray]:
    """The rows with the bits of some pairs of people exchanged."""
    bit, flag = codes["bit"], codes["flag"]
    n = len(bit)
    pairs = partners(
        groups=[flag],
        rarity=rarity_of([(bit, flag)]) if is_targeted else np.ones(n, dtype=np.int64),
        draws=np.random.default_rng([number, 7]).integers(0, 1 << 64, (n, 2), dtype=np.uint64),
        n_pairs=int(rate * n) // 2,
        key=number.to_bytes(16, "little"),
    )
    out = bit.copy()
    out[pairs.ravel()] = bit[pairs[:, ::-1].ravel()]
    return codes | {"bit": out}


def layers(keys: int) -> list[tuple[object, ...]]:
    """A row a pair of layers."""
    rows = []
    for label, of_sets in LAYERS:
        found = np.zeros((keys, 3))
        for key in range(keys):
            codes = group_of(PEOPLE, COLUMNS, key)
            few = {name: codes[name] for name in ("flag", "bit", *_columns(codes)[:FEW])}
            for i, one in enumerate((codes, few, with_copies(codes, key))):
                found[key, i] = right(one, 1 + key, (label, of_sets))
        sd = (label**2 + of_sets**2) ** 0.5
        rows.append((label, of_sets, f"{sd:.2f}", *(f"{m:.3f}" for m in found.mean(axis=0))))
        print(*rows[-1], flush=True)
    return rows


def swapping(keys: int) -> list[tuple[object, ...]]:
    """A row a share of people exchanged."""
    rows = []
    for rate in RATES:
        for is_targeted in (False, True) if rate else (False,):
            found, moved = np.zeros((keys, len(TABLES))), []
            for key in range(keys):
                for i, n_tables in enumerate(TABLES):
                    codes = group_of(PEOPLE, n_tables, key)
                    shown = exchanged(codes, 1 + key, rate, is_targeted=is_targeted)
                    wide = [("bit", name, "flag") for name in _columns(codes)]
                    found[key, i] = solved(trial_of_rows(shown, wide, 1 + key), codes, PEOPLE)
                    moved.append((shown["bit"] != codes["bit"])[:PEOPLE].mean())
            who = "those singled out first" if is_targeted else "nobody first"
            rows.append(
                (
                    f"{rate:.0%}",
                    who if rate else "",
                    f"{np.mean(moved):.0%}",
                    *(f"{m:.3f}" for m in found.mean(axis=0)),
                )
            )
            print(*rows[-1], flush=True)
    return rows


def others(keys: int) -> list[tuple[object, ...]]:
    """A row a threshold and a noise."""
    rows = []
    for mean, sd in OTHERS:
        params = PrivacyParams(threshold_mean=mean, layer_sd=sd)
        found = np.zeros((keys, len(TABLES)))
        for key in range(keys):
            for i, n_tables in enumerate(TABLES):
                codes = group_of(PEOPLE, n_tables, key)
                wide = [("bit", name, "flag") for name in _columns(codes)]
                draws = StickyDraws(key_of(1 + key), VINTAGE, params)
                trial = trial_of_rows(codes, wide, 1 + key, draws=draws)
                found[key, i] = solved(trial, codes, PEOPLE)
        rows.append((mean, sd, *(f"{m:.3f}" for m in found.mean(axis=0))))
        print(*rows[-1], flush=True)
    return rows


def _columns(codes: dict[str, np.ndarray]) -> list[str]:
    """Names of the columns of 8 values."""
    return [name for name in codes if name[0] == "c"]


def main() -> None:
    """Run it."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--keys", type=int, default=10)
    add_option(reader)
    chosen = reader.parse_args()
    of_layers = (
        *("sd of labels", "sd of sets", "sd of a count"),
        *(f"{COLUMNS} columns", f"{FEW} columns", f"{FEW} columns, {COPIES} copies of each"),
    )
    of_swapping = (
        *("exchanged", "who goes first", f"bits of the {PEOPLE} that changed"),
        *(f"{n} tables" for n in TABLES),
    )
    of_others = ("mean threshold", "sd of both layers", *(f"{n} tables" for n in TABLES))
    text = (
        f"Even bits of {PEOPLE} people that are solved right, {chosen.keys} keys (a guess: .5).\n\n"
        f"{markdown(of_layers, layers(chosen.keys))}\n\n{markdown(of_swapping, swapping(chosen.keys))}\n\n"
        f"{markdown(of_others, others(chosen.keys))}"
    )
    if chosen.record:
        words = command_line(".venv/bin/python scripts/levers_reconstruction.py")
        record("levers-reconstruction", words, text)


if __name__ == "__main__":
    main()
