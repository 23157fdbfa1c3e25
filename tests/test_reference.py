"""Reference pages: every public name with signature and docstring; every key of the spec, in the committed page."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import reference_pages

import engine
import queries
from engine.spec.model import NESTED, SECTIONS


@pytest.fixture(scope="module")
def page():
    return reference_pages.reference()


def test_every_public_name_is_there(page):
    for module in (engine, queries):
        for name in module.__all__:
            assert f"\n### `{module.__name__}.{name}" in page, name


def test_every_package_is_there(page):
    headings = {line[3:] for line in page.splitlines() if line.startswith("## ")}
    assert headings == set(reference_pages.packages())
    assert {"engine", "engine.store", "queries.packs"} <= headings


def test_the_methods_of_a_release_are_there(page):
    assert "\n#### `.sql(" in page
    assert "\n#### `.card(" in page
    assert "(self" not in page


def test_signatures_keep_the_quotes_of_defaults_only():
    def asked(path: str, *, form: str = "csv") -> list[str]: ...

    asked.__annotations__ = {"path": "str", "form": "str", "return": "list[str]"}
    assert reference_pages.signature("asked", asked) == (
        "asked(path: str, *, form: str = 'csv') -> list[str]"
    )


def test_numpydoc_becomes_markdown():
    text = "Do it.\n\nParameters\n----------\na : int\n    How often.\n\nRaises\n------\nSpecError"
    assert reference_pages.page_of(text) == (
        "Do it.\n\n**Parameters**\n\n- `a` : int\n  How often.\n\n**Raises**\n\n- `SpecError`"
    )


def test_a_name_without_a_docstring_is_an_error():
    def bare() -> None: ...

    package = SimpleNamespace(__all__=["bare"], bare=bare)
    ((name, value),) = reference_pages.members(package)
    with pytest.raises(SystemExit, match=r"package\.bare"):
        reference_pages.entry("package", name, value)


def test_the_committed_spec_reference_is_current():
    committed = (reference_pages.ROOT / reference_pages.SPEC).read_text("utf-8")
    assert committed == reference_pages.spec_reference(), "run ./scripts/reference --spec"


def test_every_key_of_the_spec_is_in_its_reference():
    rows = reference_pages.spec_reference().splitlines()
    keys = [
        key for section in (*SECTIONS.values(), *NESTED.values()) for key in section.model_fields
    ]
    for key in keys:
        assert sum(row.startswith(f"| `{key}` |") for row in rows) == keys.count(key), key


def test_types_and_defaults_in_words():
    columns = SECTIONS["columns"].model_fields
    assert reference_pages.held(columns["type"].annotation).startswith('`"integer"`, `"real"`')
    assert reference_pages.held(columns["labels"].annotation) == "table of text"
    assert reference_pages.held(NESTED["universe"].model_fields["values"].annotation) == (
        "list of values"
    )
    assert [reference_pages.default_text(one) for one in (None, False, "a", 10_000_000, [])] == [
        "", "`false`", '`"a"`', "`10_000_000`", "`[]`",
    ]  # fmt: skip
