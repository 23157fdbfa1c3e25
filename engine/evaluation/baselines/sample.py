"""A sample of the rows as they are: the scale on which every measure of utility is read, and no protection at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.evaluation.baselines.baseline import Schema, assembled
from engine.evaluation.baselines.levels import taken


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Some of the rows, in a random order."""

    share: float = 0.4  # Of the rows; above 0
    # A bootstrap sample: a row may be drawn several times. Otherwise each at most once, as NIST's 40 %
    # sample.
    replace: bool = False

    origin: ClassVar[str] = "ours"

    def __post_init__(self) -> None:
        most = 10.0 if self.replace else 1.0
        if not 0 < self.share <= most:
            raise SpecError(
                f"{self.name}: wants a share of the rows above 0 and at most {most:.0%}"
            )

    @property
    def name(self) -> str:
        """For people."""
        return f"{'bootstrap' if self.replace else 'sample'}{100 * self.share:g}"

    @property
    def promise(self) -> str:
        """What it promises."""
        return (
            f"Every row is that of a person; {self.share:.0%} of the people, drawn "
            f"{'with' if self.replace else 'without'} replacement, are shown as they are. Protects nobody who is shown."
        )

    def synthesize(
        self, frame: pd.DataFrame, schema: Schema, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Return rows of the data; see `Baseline`.

        Where columns are kept there is a row for each of theirs, and the others are those of a row of the sample.
        """
        changed, n = schema.changed(frame), len(frame)
        size = max(round(self.share * n), 1)
        rows = rng.choice(n, size=size, replace=self.replace)
        if schema.kept:
            rows = rng.choice(rows, size=n)
        drawn = {c: taken(frame[c], rows) for c in changed}
        return assembled(frame, drawn)


def bootstrap(share: float = 1.0) -> Sample:
    """Return a bootstrap sample."""
    return Sample(share=share, replace=True)
