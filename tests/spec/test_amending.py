"""Entries put into the text of a spec and taken out of it: nothing else in it changes."""

from __future__ import annotations

import pytest

from engine.errors import SpecError
from engine.spec import with_entries, without_entries


@pytest.mark.parametrize("text", ['tables = [{columns = ["a"]}]\n', "[[tables]\n"])
def test_a_spec_that_lists_its_tables_otherwise(text):
    with pytest.raises(SpecError, match="does not list its tables as"):
        with_entries(text, [("b",)])


TEXT = """[release]
vintage = "1"

# Singles.
[[tables]]
columns = ["a"]   # [not a section]

[[ tables ]]
# inside
columns = [
  "c",
  "b",
]

# Of the next one.
[[tables]]
all = 2
[columns.a]
kind = "integer"
"""


def test_an_entry_goes_with_its_lines_only():
    short = without_entries(TEXT, [("b", "c")])
    assert short == TEXT.replace('[[ tables ]]\n# inside\ncolumns = [\n  "c",\n  "b",\n]\n\n', "")
    assert without_entries(short, [("a",)]).count("[[") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('tables = [{columns = ["a"]}]\n', "cannot be told from others"),
        ("[[tables]]\nall = 1\n", "one of a family"),
        ('x = """\n[[tables]]\n"""\n[[tables]]\ncolumns = ["a"]\n', "cannot be told from others"),
    ],
)
def test_what_cannot_be_taken_out_is_said(text, said):
    with pytest.raises(SpecError, match=said):
        without_entries(text, [("a",)])
