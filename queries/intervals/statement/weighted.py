"""`weighted_count()` in a statement: the sum of the survey weights that the release names.

Takes a statement that calls it; gives the same one with the sum in its place.
"""

from __future__ import annotations

import re

from engine.errors import QueryRefused
from engine.schema import quoted
from queries.intervals.statement.nodes import (
    dicts_in,
    name_of,
    parsed_tree,
    parts,
    text_of_tree,
    tree_that_calls,
)
from queries.sql import Session

NAME = "weighted_count"
_OF_CALL = {"function_name", "qualified_name", "arguments", "children"}
"""Parts of a call that say what is called; the others are its filter, its window, its place."""
_CALL = re.compile(r"\bweighted_count\W{0,3}\(", re.I)


def has_weighted(text: str) -> bool:
    """Whether a statement may count weights; quick, and now and then wrong where a text or comment has the word."""
    return _CALL.search(text) is not None


def with_weights(release: Session, text: str) -> str:
    """Return a statement with the sum of weights in the place of each `weighted_count()`."""
    with release.cursor() as con:
        tree = tree_that_calls(con, text, NAME, f"{NAME}() stands in a plain SELECT")
        calls = [node for node in dicts_in(tree) if name_of(node) == NAME]
        if not calls:
            return text
        weight = weight_of(release)
        shown = {id(item) for node in dicts_in(tree) for item in node.get("select_list", [])}
        (of_weights,) = parsed_tree(con, f"SELECT sum({quoted(weight)})")["statements"][0]["node"][
            "select_list"
        ]
        for call in calls:
            if parts(call):
                raise QueryRefused(f"{NAME}() takes no column: it adds up the weights, {weight}")
            for part in _OF_CALL & call.keys() & of_weights.keys():
                call[part] = of_weights[part]
            if id(call) in shown and not call.get("alias"):
                call["alias"] = NAME
        return text_of_tree(con, tree)


def weight_of(release: Session) -> str:
    """The column of weights of a release."""
    if release.weight not in release.columns:
        raise QueryRefused(
            "The release has no weights. Its spec can name a column of them: weight, in [release]."
        )
    return str(release.weight)
