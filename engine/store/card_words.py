"""What cards say in words of what is modelled: in mode dp, with what is guaranteed; and of wide tables of mode sticky.

Takes the plain values of a card; gives sentences. Whatever weakens a promise (no guarantee, a public number of rows,
a fit that did not converge, columns that nothing was measured of, a modelled table) is said in capitals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.schema import ColumnSet

_SAMPLES = {
    "rounded": "each expected count rounded up or down at random, then rows changed until counts of the margins are "
    "near; counts that no margin covers have noise about like a sample's, beyond the sd above",
    "multinomial": "drawn independently, which adds noise of its own",
}
_POSTS = {
    "wls": "brought in line with each other by least squares before the fit",
    "paper": "cut off at 0 and scaled to the total, each by itself",
    "synthpop": "cut off and scaled to the total as synthpop does, each by itself",
}


def guarantee(dp: Mapping[str, Any]) -> str:
    """What the parameters guarantee, in plain words."""
    if dp["epsilon"] is None:
        return (
            "NOTHING IS GUARANTEED: counts were taken as they are, without noise, and whoever fitted this release saw "
            "them. It is for comparison only and must not be published."
        )
    epsilon, delta = dp["epsilon"], dp["delta"]
    slip = f", but for a chance of {delta:g}" if delta else ""
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    return (
        f"Whether one entity is there or not makes no released figure more than {factor:,.4g} times as likely or "
        f"unlikely{slip}: differential privacy with epsilon {epsilon:g}{f' and delta {delta:g}' if delta else ''}, "
        "for all tables of this build together (exchanging an entity's rows for others counts as two steps). What "
        "other builds with the same key add to it stands in catalog.ledger."
    )


def promises(dp: Mapping[str, Any]) -> list[str]:
    """The guarantee, and what it leaves out, a sentence or two a line.

    dp: `epsilon`, `delta`, `max_rows`, `total`; `is_bound_said`, where the spec says that 1 row counts.
    """
    return [guarantee(dp), *_weakened(dp)]


def dp_sentences(
    dp: Mapping[str, Any],
    *,
    columns: ColumnSet,
    rows: int,
    cells: int,
    noise_sd: float,
    many: str = "rows",
) -> list[str]:
    """The card of one table in plain words, a sentence a line."""
    named = ", ".join(columns)
    return [
        f"{rows:,} synthetic {many} in {cells:,} distinct combinations of {named}.",
        *promises(dp),
        _measured(dp, many),
        _precision(dp, noise_sd, many),
        *_uniform(dp["uniform"], columns),
        _fit(dp),
        f"Rows: {_SAMPLES[dp['sample']]}. All tables are projections of the same rows: their margins agree exactly. "
        "Values inside a group of values are spread evenly.",
    ]


def bound_sentences(
    max_rows: int | None, words: Mapping[str, str], *, is_said: bool = False
) -> list[str]:
    """That rows of an entity beyond a bound are not counted, for all who read figures; nothing where one row counts."""
    if max_rows is None or (max_rows <= 1 and not is_said):
        return []
    some = (
        f"1 {words['one']} at most counts"
        if max_rows == 1
        else f"{max_rows:,} {words['many']} at most count"
    )
    return [
        f"Of each {words['entity']} {some} in any figure: those beyond are left out, so counts are too low "
        f"where {words['entities']} have more; the noise stated, and noise intervals, say nothing "
        "of that."
    ]


def range_words(noise_sd: float | None, noise_sd_most: float | None) -> str:
    """That ranges carry more noise than single values, to go on with after the noise of these; empty if they do not.

    noise_sd, noise_sd_most: Standard deviations of the noise of a finest count, and of one that the bound of
        the whole release holds for.
    """
    if noise_sd is None or noise_sd_most is None or noise_sd_most < noise_sd + 0.01:
        return ""
    return f" (of ranges of values, and of all: up to {noise_sd_most:.2f})"


def bounds_rows(dp: Mapping[str, Any]) -> bool:
    """Whether rows of an entity may have been left out: of a guarantee, by a bound above 1 or one that the spec
    says.
    """
    return dp["epsilon"] is not None and (dp.get("max_rows", 1) > 1 or "is_bound_said" in dp)


def _weakened(dp: Mapping[str, Any]) -> list[str]:
    """What the guarantee leaves out."""
    sentences = []
    if dp["epsilon"] is not None and dp["total"] == "public":
        sentences.append(
            "THE NUMBER OF ROWS IS PUBLIC by declaration: the true one was used, and the guarantee takes it as known."
        )
    if bounds_rows(dp):
        rows = "1 row" if dp["max_rows"] == 1 else f"{dp['max_rows']:,} rows"
        sentences.append(
            f"An entity counts with {rows} at most: those it has beyond were left out before "
            "counting, so counts are too low where entities have more."
        )
    return sentences


def _measured(dp: Mapping[str, Any], many: str) -> str:
    """Which counts were taken."""
    within = f" within each of {', '.join(dp['strata'])}" if dp["strata"] else ""
    number = f"{dp['margins']:,} {'margin was' if dp['margins'] == 1 else 'margins were'} counted{within}"
    if dp["epsilon"] is None:
        return f"{number}, without noise."
    sds = f"sd {dp['sd'][0]:.4g}"
    if dp["sd"][1] > dp["sd"][0]:
        sds += f" to {dp['sd'][1]:.4g}"
    total = "public" if dp["total"] == "public" else f"noisy, sd {dp['total_sd']:.4g}"
    return f"{number}, each count with fresh {dp['noise'].title()} noise of {sds} {many}; total {total}."


def _precision(dp: Mapping[str, Any], noise_sd: float, many: str) -> str:
    """How noisy this table is."""
    if dp["covered"]:
        return (
            "This table lies inside a measured margin: its counts carry noise of sd "
            f"{noise_sd:.4g} {many} at most, before they were fitted together."
        )
    return (
        "MODELLED: no measured margin holds all columns of this table. It follows from narrower margins, whose "
        f"counts carry noise of sd {noise_sd:.4g} {many} at most; how far the model is off is not known."
    )


def _uniform(uniform: Sequence[str], columns: ColumnSet) -> list[str]:
    """Columns of which nothing was measured."""
    bare = [name for name in columns if name in uniform]
    if not bare:
        return []
    return [
        f"UNIFORM: of {', '.join(bare)} nothing was measured; all values are equally frequent by assumption."
    ]


def _fit(dp: Mapping[str, Any]) -> str:
    """How margins became a joint distribution."""
    if dp["method"] == "catall":
        return f"Method catall: the full cross-tabulation, {_POSTS[dp['post']]}."
    start = f"Method ipf ({dp['how']}): margins were {_POSTS[dp['post']]}; {dp['cycles']:,} cycles"
    rows = "a stratum's rows" if dp["strata"] else "the rows"
    off = f"margins then differ from their targets by {dp['error']:.2%} of {rows} at most"
    if dp["converged"] and dp["error"] <= dp["tolerance"]:
        return f"{start}, converged: {off}."
    if dp["converged"] and "support rows" in dp["how"]:
        return f"{start}; the table is too large to be held: rows were searched for that come near, and {off}."
    if dp["converged"]:
        return f"{start}, at rest: the targets contradict each other, being noisy, and {off}."
    return f"{start}, NOT CONVERGED: {off}. The targets contradict each other, or need more cycles."


def wide_sentences(
    wide: Mapping[str, Any], *, columns: ColumnSet, rows: int, cells: int, many: str
) -> list[str]:
    """The card of one wide table in plain words, a sentence a line."""
    pairs, triples = int(wide["pairs"]), int(wide["triples"])
    of = f"{pairs:,} locked tables of two columns" + (
        f" and {triples:,} of three" if triples else ""
    )
    near = [
        f"by {float(share):.2%} in those of {'two' if width == '2' else 'three'} columns"
        for width, share in sorted(wide["off"].items())
    ]
    left = int(wide["impossible"])
    return [
        f"{rows:,} synthetic {many} in {cells:,} distinct combinations of {', '.join(columns)}.",
        f"MODELLED from {of}; nothing was measured for it beyond these. What only more columns together show is not in "
        "it: how far the model is off is not known, so there are no intervals.",
        "Every column has exactly the counts of its own table.",
        *(
            [
                f"Set {int(wide['set']):,} of {int(wide['sets']):,}: independent syntheses of one measurement. What is "
                "estimated from each is combined by the rules for synthetic data."
            ]
            if "sets" in wide
            else []
        ),
        *(
            [
                f"They are many: {int(wide['step']):,} at a time were placed as one, then some of all again, so that "
                f"equal ones often come {int(wide['step']):,} at a time."
            ]
            if "step" in wide
            else []
        ),
        *(
            [
                f"Made to train models that predict {wide['target']}: tables with this column counted more."
            ]
            if "target" in wide
            else []
        ),
        *(
            [f"Tables read from it differ from those on average {' and '.join(near)}."]
            if near
            else []
        ),
        f"In {left:,} {many} two values stand together that a locked table keeps apart, as these contradict each other."
        if left
        else "No two values stand together that a locked table keeps apart where more than a few were to be expected.",
    ]
