"""Reference pages: every public name with signature and docstring; every key of the spec, in the committed page."""

from __future__ import annotations

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


def test_the_methods_of_a_release_are_there(page):
    assert "\n#### `.sql(" in page
    assert "\n#### `.card(" in page
    assert "(self" not in page


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
