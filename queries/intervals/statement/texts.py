"""Texts that hidden values may have: what a condition on parts of text may be true of, beyond the released values.

Takes a statement and the replays of its table; gives further tables that the release does not rule out, in which values
behind a placeholder or a prefix (`E1*`) have other texts: those that the statement or the user's own tables name, and
such as released values have. A figure that differs among them rests on what is hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from string import ascii_lowercase, ascii_uppercase, digits
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import StoreError
from engine.schema import KIND_NONNEGATIVE, KIND_OTHER, BoolArray, WeightedRows, quoted
from engine.store import prefix_mark
from queries.intervals.buckets import ReleasedValues, stacked, stored_codes
from queries.intervals.statement.nodes import Node, columns_in, dicts_in
from queries.sql import Session

if TYPE_CHECKING:
    from queries.intervals.replays import Replays

MOST_NAMED = 10_000
"""Texts of one's own tables that are tried."""
N_ENDINGS = 8
"""Endings of released values that are tried, the most frequent ones."""
_FIRST_CODE = 1 << 60
"""Codes of texts that are tried lie beyond those of all released values."""


def with_hidden_texts(
    release: Session, select: Node, drawn: Replays, tables: Mapping[str, Any] | None
) -> Replays:
    """Replays with tables more, in which hidden values of columns that the statement looks into have other texts."""
    looked_into = _looked_into(select)
    named: list[str] | None = None
    values, reworded = list(drawn.released), [*drawn.of("released")] * (2 + N_ENDINGS)
    for j, column in enumerate(drawn.released):
        is_hidden = column.hidden | (column.kind == KIND_OTHER)
        if column.sql_type != "VARCHAR" or column.name not in looked_into or not is_hidden.any():
            continue
        if named is None:
            named = [*dict.fromkeys(chain(_literals(select), _own_texts(release, tables)))]
        values[j], reworded = _reworded(column, is_hidden, reworded, named)
    if named is None:
        return drawn
    tables_more = replace(
        drawn,
        stack=stacked([column.name for column in values], [reworded])[0],
        counts=(len(reworded), *[0] * (len(drawn.counts) - 1)),
        released=tuple(values),
    )
    return replace(drawn, reworded=tables_more)


def _looked_into(select: Node) -> set[str]:
    """Columns that stand anywhere but by themselves, as groups and what is selected do."""
    alone = [*select.get("select_list", []), *select.get("group_expressions", [])]
    inside = {k: v for k, v in select.items() if k not in ("select_list", "group_expressions")}
    inside["expressions"] = [one for one in alone if one.get("class") != "COLUMN_REF"]
    joined = (name for one in dicts_in(inside) for name in one.get("using_columns", []))
    return {*columns_in(inside), *joined}


def _literals(select: Node) -> Iterator[str]:
    """The texts that a statement names, and what patterns among them match."""
    for node in dicts_in(select):
        held = node.get("literal")
        if isinstance(held, dict) and held.get("kind") == "STRING":
            text = str(held["text"])
            yield text
            if "%" in text or "_" in text:
                yield text.replace("%", "").replace("_", "0")


def _own_texts(release: Session, tables: Mapping[str, Any] | None) -> Iterator[str]:
    """Texts in the user's own tables, which a statement may join."""
    for name in tables or ():
        try:
            rows = Session.sql(
                release, f"SELECT * FROM {quoted(name)} LIMIT {MOST_NAMED}", tables=tables
            ).rows
        except StoreError:
            continue
        yield from islice((one for row in rows for one in row if isinstance(one, str)), MOST_NAMED)


def _alike(text: str, known: Collection[str]) -> str:
    """A text with another last character that no released value is; empty if there is none."""
    of_class = next((c for c in (digits, ascii_uppercase) if text[-1:] in c), ascii_lowercase)
    return next((one for c in of_class if (one := text[:-1] + c) not in known), "")


def _reworded(
    column: ReleasedValues,
    is_hidden: BoolArray,
    tables: Sequence[WeightedRows],
    named: Sequence[str],
) -> tuple[ReleasedValues, list[WeightedRows]]:
    """Tables with other texts for the hidden values of a column, and its values with these.

    In the first, texts go on as those that are named; in the second, these follow; in each of the others, all go on as
    one of the released values does, or are like one where nothing is known of how they begin.
    """
    known = {value for value in column.values if value is not None}
    mark = prefix_mark(column.values[at] for at in np.flatnonzero(~is_hidden))
    shown = np.flatnonzero(~is_hidden & column.valued)
    stored, texts = stored_codes(column), dict[str, int]()
    codes = [rows.codes[column.name].copy() for rows in tables]
    for at in np.flatnonzero(is_hidden):
        is_begun = column.hidden[at] and column.begins
        prefix = str(column.values[at]).removesuffix(mark) if is_begun else ""
        n, endings = len(prefix), Counter[str]()
        for other in shown:
            text = column.values[other]
            ending = text[n:] if prefix else _alike(text, known)
            if ending and prefix + ending not in known:
                endings[ending] += int(column.n[other])
        going_on = [text for text in named if text.startswith(prefix) and text not in known]
        tried = [
            going_on or [prefix + text[n:] for text in named],
            [prefix + text for text in named],
            *([prefix + ending] for ending, _ in endings.most_common(N_ENDINGS)),
        ]
        for own, some in zip(codes, tried, strict=False):
            new = [text for text in some if text not in known]
            held = np.flatnonzero(own == stored[at])
            if new and len(held):
                numbers = [texts.setdefault(text, _FIRST_CODE + len(texts)) for text in new]
                own[held] = np.resize(np.array(numbers, dtype=np.int64), len(held))
    out = [
        replace(rows, codes={**rows.codes, column.name: own})
        for rows, own in zip(tables, codes, strict=True)
    ]
    n = len(texts)
    wider = replace(
        column,
        values=(*column.values, *texts),
        kind=np.append(column.kind, np.full(n, KIND_NONNEGATIVE)),
        grid=np.append(column.grid, [*texts.values()]).astype(np.int64),
        n=np.append(column.n, np.zeros(n, dtype=np.int64)),
        hidden=np.append(column.hidden, np.zeros(n, dtype=bool)),
        measured=np.append(column.measured, np.zeros(n, dtype=bool)),
    )
    return wider, out
