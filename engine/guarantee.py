"""What mode dp guarantees, to whom and for what: one object that every sentence about it comes from.

Made of what a card holds, or of a plan and a ledger; read by cards, notes, plans, packs and
evaluations; specs and `tablepack budget` take their words on guarantees from here. All of it is public: declarations,
and what the ledger adds up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_WORDS = {"one": "row", "many": "rows", "entity": "entity", "entities": "entities"}
MOST_PLAIN_EPSILON, MOST_PLAIN_DELTA = 10.0, 1e-5
"""What is above is warned of."""
NOT_COUNTED = (
    "Sticky releases have no epsilon; they are recorded in a separate ledger. Builds with guarantee = false protect "
    "nobody and cost no epsilon. Neither ledger includes builds with other keys: exposure of the same people under two "
    "keys is recorded in two places."
)
"""What an epsilon of a ledger leaves out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """A promise, and what it rests on."""

    # epsilon, delta, rho: Of this build alone; `epsilon` None: nothing is guaranteed.
    epsilon: float | None
    delta: float = 0.0  # 0: pure epsilon
    rho: float = 0.0  # The same in zCDP; 0 with Laplace noise
    # What rows and entities are called: `one`, `many`, `entity`, `entities`
    words: Mapping[str, str] = field(default_factory=lambda: dict(_WORDS))
    # Columns that identify them, as declared; none: each row is one. None: not known
    ids: tuple[str, ...] | None = None
    max_rows: int = 1  # Rows of each that count
    is_bound_said: bool = False  # Each may have more
    stability: int | None = None  # Entities whose rows one more changes, where that is declared
    are_nameless_own: bool = False  # Each row that names no entity is one
    is_n_public: bool = False  # The number of rows is taken as known
    why_delta: str = ""  # Why a large delta was accepted
    # spent, spent_delta, builds: Of all that was measured with the key, this build included; `spent` None: not known.
    spent: float | None = None
    spent_delta: float = 0.0
    builds: int = 0
    # exact, sticky: Builds with the key that have no epsilon.
    exact: int = 0
    sticky: int = 0
    is_whole: bool = True  # The ledger was there from the key's first day

    @classmethod
    def of(cls, dp: Mapping[str, Any]) -> Guarantee:
        """The guarantee that a card holds."""
        told = dp.get("with_key") or {}
        return cls(
            epsilon=dp.get("epsilon"),
            delta=dp.get("delta") or 0.0,
            rho=dp.get("rho") or 0.0,
            words={**_WORDS, **dp.get("words", {})},
            ids=tuple(dp["ids"]) if "ids" in dp else None,
            max_rows=dp.get("max_rows", 1),
            is_bound_said="is_bound_said" in dp,
            stability=dp.get("stability"),
            are_nameless_own=dp.get("missing_ids") == "own",
            is_n_public=dp.get("total") == "public",
            why_delta=str(dp.get("accept_delta", "")),
            spent=told.get("spent"),
            spent_delta=told.get("delta") or 0.0,
            builds=int(told.get("builds", 0)),
            exact=int(told.get("exact", 0)),
            sticky=int(told.get("sticky", 0)),
            is_whole=bool(told.get("is_whole", True)),
        )

    @property
    def entity(self) -> str:
        """What one of the protected is called."""
        return self.words["entity"]

    @property
    def is_protected(self) -> bool:
        """Whether there is any."""
        return self.epsilon is not None

    def sentences(self) -> list[str]:
        """The guarantee, what it covers and what limits it, one or two sentences a line."""
        return [
            self.promise(),
            *self.together(),
            *self.public_facts(),
            *self.limits(),
            *self.warnings(),
        ]

    def promise(self) -> str:
        """What is guaranteed to whom."""
        if self.epsilon is None:
            return (
                "NO PRIVACY GUARANTEE: counts were used as they are, without noise, so this release was fitted to "
                "confidential figures. It is for comparison only and must not be published."
            )
        plus = f", plus {self.delta:g}" if self.delta else ""
        zcdp = f" (rho {self.rho:.6g} in zCDP)" if self.rho else ""
        who = ""
        if self.ids is not None:
            who = (
                f" (identified by {', '.join(self.ids)})"
                if self.ids
                else " (each row is one, as declared)"
            )
        of = "noisy counts" if self.is_n_public else "tables"
        return (
            f"Differential privacy with {named(self.epsilon, self.delta)}{zcdp} for each {self.entity}{who}, by all "
            f"{of} of this build together: whatever else is known, any set of outcomes is at most "
            f"{_factor(self.epsilon)} times as probable with all rows of one {self.entity} as without them, or the "
            f"other way round{plus}. Exchanging the rows of one {self.entity} for others counts as two such changes."
        )

    def brief(self) -> str:
        """The guarantee in a few words."""
        if self.epsilon is None:
            return "no privacy guarantee: exact counts"
        return named(self.epsilon, self.delta, ", ")

    def points(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What `sentences` say, as words of a pack in any language, with what fills their places."""
        if self.epsilon is None:
            return
        unit = f"{', '.join(self.ids)}: {self.entity}" if self.ids else self.entity
        yield (
            ("number means", (self._exchanged(), unit))
            if self.is_n_public
            else ("epsilon means", (self.brief(), unit))
        )
        if self.spent is not None and self.builds > 1:
            yield "together means", (named(self.spent, self.spent_delta, ", "),)
        if not self.is_whole:
            yield "earlier mean", ()
        if self.exact or self.sticky:
            yield "others mean", ()
        yield "public means", ()
        if self.stability is not None:
            yield "declared means", (f"{self.stability}",)
        if self.are_nameless_own:
            yield "nameless means", ()
        if self.bounds_rows:
            yield "bounded means", (self.entity, f"{self.max_rows}")
        if self.warnings():
            yield "weak means", ()
        if self.delta > MOST_PLAIN_DELTA and self.why_delta:
            yield "accepted means", (self.why_delta,)

    def together(self) -> list[str]:
        """What all builds with the key come to, and what the guarantee leaves out."""
        lines = []
        if self.is_protected and self.spent is not None:
            n = "1 measurement" if self.builds == 1 else f"{self.builds:,} measurements"
            aside = ", public numbers of rows aside" if self.is_n_public else ""
            lines.append(
                f"Everything measured with this key in mode dp ({n}){aside}: {named(self.spent, self.spent_delta)}. "
                "That is the guarantee for whoever is in all of it; catalog.ledger lists it."
            )
        if self.is_protected and not self.is_whole:
            lines.append(
                "EARLIER RELEASES UNKNOWN: the ledger was begun on a key that existed already, so what had been "
                "measured with it before is not included."
            )
        if others := self._others():
            lines.append(
                f"NOT COVERED BY EPSILON: with the same key {' and '.join(others)}. For whoever is in these, no "
                "epsilon holds for all releases together."
            )
        return lines

    def _others(self) -> list[str]:
        """Builds without an epsilon, in words."""
        found = []
        if self.exact:
            was = "release was" if self.exact == 1 else "releases were"
            found.append(f"{self.exact:,} {was} made of exact counts, without noise")
        if self.sticky:
            was = "build was" if self.sticky == 1 else "builds were"
            found.append(f"{self.sticky:,} {was} charged in mode sticky (noise, but no epsilon)")
        return found

    def public_facts(self) -> list[str]:
        """What is taken as known."""
        if not self.is_protected:
            return []
        lines = [
            "Taken as public, by declaration: the possible values and groups of every column, and combinations that "
            "cannot occur."
        ]
        if self.is_n_public and self.epsilon is not None:
            lines.append(
                "THE NUMBER OF ROWS IS PUBLIC by declaration: the exact number was used, and nothing protects it. "
                f"Sources that can be confused then have as many rows: one {self.entity} exchanged for another "
                f"with as many rows, against which the whole release has {self._exchanged(' and ')}."
            )
        return lines

    def _exchanged(self, joint: str = ", ") -> str:
        """Epsilon and delta against an exchange: two steps, by the composition of group privacy."""
        epsilon = self.epsilon or 0.0
        return named(2 * epsilon, self.delta * (1 + math.exp(min(epsilon, 700.0))), joint)

    def limits(self) -> list[str]:
        """What the bound on one entity's rows does."""
        lines = []
        if self.bounds_rows:
            lines += bound_sentences(self.max_rows, self.words, is_said=True)
        if self.is_protected and self.are_nameless_own:
            one = self.words["one"]
            lines.append(
                f"DECLARED: each {one} that names no {self.entity} is taken as one of its own. The guarantee does not "
                f"hold for a {self.entity} with several such {self.words['many']} as a whole."
            )
        if self.is_protected and self.stability is not None:
            lines.append(
                "DECLARED, NOT VERIFIED: the statement that made the rows need not take them one by one. As declared, "
                f"one {self.entity} more or less changes the rows of at most {self.stability:,} of them; the guarantee "
                "rests on that."
            )
        return lines

    @property
    def bounds_rows(self) -> bool:
        """Whether rows of an entity may have been left out."""
        return self.is_protected and (self.max_rows > 1 or self.is_bound_said)

    def warnings(self) -> list[str]:
        """What weakens it."""
        lines = []
        if self.epsilon is not None and self.epsilon > MOST_PLAIN_EPSILON:
            lines.append(
                f"WEAK: epsilon is above {MOST_PLAIN_EPSILON:g}. An attacker who gave even chances can be "
                f"{_percent(self.most_sure())} sure afterwards: that is next to no protection."
            )
        if self.delta > MOST_PLAIN_DELTA:
            because = f" It was accepted because: {self.why_delta}" if self.why_delta else ""
            lines.append(
                f"WEAK: delta is above {MOST_PLAIN_DELTA:g}. It should be far below one over the number of people: "
                f"{outright(self.delta)}.{because}"
            )
        return lines

    def most_sure(self) -> float:
        """How often the best attacker is right who gave even chances beforehand, seeing all that the key released."""
        epsilon, delta = (
            (self.epsilon, self.delta)
            if self.spent is None
            else (self.spent, max(self.spent_delta, self.delta))
        )
        if epsilon is None:
            return 1.0
        odds = math.exp(-min(epsilon, 700.0))
        return min((1 + delta * odds) / (1 + odds), 1.0)


def named(epsilon: float, delta: float, joint: str = " and ") -> str:
    """Epsilon and delta for people."""
    return f"epsilon {epsilon:g}{f'{joint}delta {delta:g}' if delta else ''}"


def outright(delta: float) -> str:
    """What a delta allows."""
    return f"a mechanism that publishes each person outright with probability {delta:g} satisfies it, too"


def _factor(epsilon: float) -> str:
    """By how much a probability may change."""
    return f"{math.exp(epsilon):,.4g}" if epsilon < 700 else "inf"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def bound_sentences(
    max_rows: int | None, words: Mapping[str, str], *, is_said: bool = False
) -> list[str]:
    """The bound on rows of one entity, for all who read figures; nothing if each entity has one row.

    is_said: Mention a bound of 1 row, too.
    """
    if max_rows is None or (max_rows <= 1 and not is_said):
        return []
    rows = f"1 {words['one']}" if max_rows == 1 else f"{max_rows:,} {words['many']}"
    verb = "is" if max_rows == 1 else "are"
    return [
        f"At most {rows} per {words['entity']} {verb} counted in any figure: further ones are left out, so counts are "
        f"too low where {words['entities']} have more. The noise stated and noise intervals do not cover this."
    ]
