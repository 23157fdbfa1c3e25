"""Adding entries to the text of a spec and removing them changes nothing else in it."""

from __future__ import annotations

import pytest

from engine.errors import SpecError
from engine.spec import with_entries, without_entries


@pytest.mark.parametrize("text", ['tables = [{columns = ["a"]}]\n', "[[tables]\n"])
def test_a_spec_that_lists_its_tables_in_another_form(text):
    with pytest.raises(SpecError):
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
    "text",
    [
        'tables = [{columns = ["a"]}]\n',
        "[[tables]]\nall = 1\n",
        'x = """\n[[tables]]\n"""\n[[tables]]\ncolumns = ["a"]\n',
    ],
)
def test_entries_that_cannot_be_removed_safely_are_refused(text):
    with pytest.raises(SpecError):
        without_entries(text, [("a",)])
