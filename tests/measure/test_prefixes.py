"""Prefixes of text: what may be shown, and that each is one snapped range of codes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fixtures.measure import cells_of, tokens_of
from fixtures.sticky import HARD
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.measure.prefixes import coded_prefixes
from engine.schema import LONGEST_PREFIX as LONGEST
from engine.schema import NULL_CODE, OTHER_CODE, Prefix
from engine.source.ingest import Ingested

FEWEST = 3


def coded(texts):
    """Released values and prefixes by code, and the code of each text; None is null, each text is one person."""
    dictionary = tuple(sorted({text for text in texts if text is not None}))
    place = {text: at for at, text in enumerate(dictionary)} | {None: NULL_CODE}
    rows = [((place[text],), (i,)) for i, text in enumerate(texts)]
    cells = cells_of(rows, ("L",), (tokens_of(max(len(rows), 1)),), (True,))
    released = coded_prefixes(cells, dictionary, HARD)
    holder = SimpleNamespace(dictionaries={"L": dictionary}, columns=())
    codes = Ingested.ranks(holder, "L", released)
    return released, dict(zip((*dictionary, None), codes.tolist(), strict=True))


def is_snapped(codes, others) -> bool:
    """Whether some range of 2**k codes from a multiple of 2**k on holds some codes and none of the others."""
    for level in range(49):
        if min(codes) >> level == max(codes) >> level:
            return not {code >> level for code in others} & {min(codes) >> level}
    return False


WORDS = st.text(alphabet="ab*é", max_size=5) | st.sampled_from(
    ["x" * 70 + "1", "x" * 70 + "2", "x" * 64]
)


def kept_slowly(texts: list[str]) -> tuple[set, set]:
    """Released values and prefixes, by their definition."""
    values, prefixes = set(), set()

    def hidden_below(known: list[str], prefix: str) -> tuple[int, int]:
        """Of the people with values that begin so: how many no prefix as long stands for; and how many codes it has."""
        if len(prefix) >= LONGEST:
            parts = [[t for t in known if t == text] for text in sorted(set(known))]
        else:
            starts = sorted({text[: len(prefix) + 1] for text in known})
            parts = [[t for t in known if t[: len(prefix) + 1] == start] for start in starts]
        hidden = taken = 0
        for part in parts:
            size = 1
            if len(part) < FEWEST:
                hidden += len(part)
                continue
            if len(set(part)) == 1:
                values.add(part[0])
            else:
                more, size = hidden_below(part, part[0][: len(prefix) + 1])
                hidden += more
            taken = (taken + size - 1) // size * size + size
        is_free = taken & (taken - 1) != 0  # no power of two
        if prefix and (hidden >= FEWEST or is_free):
            prefixes.add(prefix)
            taken, hidden = taken + 1, 0
        return hidden, 2 ** max(taken - 1, 0).bit_length()

    if len(texts) >= FEWEST and len(set(texts)) == 1:
        values.add(texts[0])
    elif len(texts) >= FEWEST:
        hidden_below(texts, "")
    return values, prefixes


@given(st.lists(st.none() | WORDS, max_size=40))
@settings(max_examples=200, deadline=None)
@example(["E1"] * 3 + ["E11"] * 3 + ["E12", "E13", "I", None])
@example(["x" * 70 + "1"] * 3 + ["x" * 70 + "2"] * 3)
@example(["ab"] * 3 + ["abc"] * 3 + ["b"])
@example([])
def test_what_enough_share_is_a_snapped_range_and_nothing_else_is_shown(texts):
    released, code = coded(texts)
    known = [text for text in texts if text is not None]
    values, prefixes = kept_slowly(known)
    assert {v for v in released.values() if isinstance(v, str)} == values
    assert {v.text for v in released.values() if isinstance(v, Prefix)} == prefixes
    for text in set(known):
        covering = [prefix for prefix in prefixes if text.startswith(prefix)]
        if text in values:
            assert released[code[text]] == text
        elif covering:
            assert released[code[text]] == Prefix(max(covering, key=len))
        else:
            assert code[text] == OTHER_CODE
    starts = {value[:k] for value in values for k in range(1, min(len(value), LONGEST) + 1)}
    for prefix in prefixes | starts:
        begins = {
            c
            for c, v in released.items()
            if (v.text if isinstance(v, Prefix) else v).startswith(prefix)
        }
        assert is_snapped(begins, released.keys() - begins)


@given(st.lists(WORDS, max_size=30), WORDS, st.integers(1, FEWEST - 1))
@settings(max_examples=150, deadline=None)
@example(["E11"] * 4, "E2", 1)
@example(["E11"] * 4 + ["E12"] * 4, "E13", 2)
def test_codes_follow_from_what_passes_alone(texts, more, n):
    with_more = texts + [more] * n
    if kept_slowly(texts) == kept_slowly(with_more):
        assert coded(texts)[0] == coded(with_more)[0]


def test_codes_by_hand():
    released, code = coded(
        ["E1"] * 3
        + ["E11"] * 4
        + ["E12", "E13", "I1", "I2", "I3", "K", "K1"]
        + ["K2"] * 3
        + ["K3"] * 3
        + ["K4"]
    )
    # E1 and E11 in a range of two; of I no value is shown; K: two values, and three people with others.
    assert released == {0: "E1", 1: "E11", 2: Prefix("I"), 4: "K2", 5: "K3", 6: Prefix("K")}
    assert code == {
        "E1": 0, "E11": 1, "E12": OTHER_CODE, "E13": OTHER_CODE, "I1": 2, "I2": 2, "I3": 2,
        "K": 6, "K1": 6, "K2": 4, "K3": 5, "K4": 6, None: NULL_CODE,
    }  # fmt: skip


def test_what_all_begin_with_stands_for_those_whom_nothing_else_covers():
    released, code = coded(
        ["Street 1"] * 5 + ["Street 2"] * 5 + ["Street 31", "Street 4", "Street 5"]
    )
    assert released[code["Street 31"]] == released[code["Street 4"]] == Prefix("Street ")


@pytest.mark.parametrize("more", [[], ["E2"], ["E2", "E3"], ["E", "E1x"]])
def test_few_people_beside_a_prefix_leave_no_trace(more):
    texts = ["E11"] * 5 + ["E12"] * 5 + ["I"] * 5
    assert coded(texts + more)[0] == coded(texts)[0]


@pytest.mark.parametrize("n", [40, 60])
def test_prefixes_of_prefixes_do_not_use_up_the_codes(n):
    texts = [("ab" * n)[:k] for k in range(1, n) for _ in range(3)] + [
        ("ab" * n)[:k] + "x" for k in range(n)
    ]
    released, code = coded(texts)
    assert max(released) < 2**48
    assert {released[code[text]] for text in texts[: 3 * (n - 1)]} == set(texts[: 3 * (n - 1)])


def test_entities_of_many_rows_share_nothing_by_themselves():
    dictionary = ("E1", "E2", "I1")
    rows = [((0,), (0,))] * 9 + [((1,), (1,))] * 9 + [((2,), (entity,)) for entity in range(2, 6)]
    cells = cells_of(rows, ("L",), (tokens_of(6),), (False,))
    assert coded_prefixes(cells, dictionary, HARD) == {0: "I1"}
