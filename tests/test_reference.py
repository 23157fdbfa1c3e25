"""The API reference: every public name is in it, with its signature and docstring, in Markdown."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import reference_pages

import engine
import queries


@pytest.fixture(scope="module")
def page():
    return reference_pages.reference()


def test_every_public_name_is_there(page):
    for module in (engine, queries):
        for name in module.__all__:
            assert f"\n### `{module.__name__}.{name}" in page, name


def test_every_face_is_there(page):
    headings = {line[3:] for line in page.splitlines() if line.startswith("## ")}
    assert headings == set(reference_pages.packages())
    assert {"engine", "engine.store", "queries.packs"} <= headings


def test_what_users_call_on_a_release_is_there(page):
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


def test_a_name_without_a_docstring_ends_the_run():
    def bare() -> None: ...

    face = SimpleNamespace(__all__=["bare"], bare=bare)
    ((name, value),) = reference_pages.members(face)
    with pytest.raises(SystemExit, match=r"face\.bare has no docstring"):
        reference_pages.entry("face", name, value)


def test_the_page_is_written(tmp_path, monkeypatch, page):
    monkeypatch.setattr(sys, "argv", ["reference_pages.py", str(tmp_path / "r.md")])
    reference_pages.main()
    assert (tmp_path / "r.md").read_text("utf-8") == page
