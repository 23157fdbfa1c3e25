"""Two releases that most tests of intervals read: each is built once."""

from __future__ import annotations

import pytest
from fixtures.intervals import small_release
from fixtures.pipeline import make_census


@pytest.fixture(scope="session")
def small(census, tmp_path_factory):
    """Of 1,500 people: much is hidden, and wide tables are mostly filled in."""
    with small_release(tmp_path_factory.mktemp("small"), census) as made:
        yield made


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """Of 6,000 people: nearly every age of each sex is measured."""
    folder = tmp_path_factory.mktemp("large")
    tables = (
        *((name,) for name in ("age", "sex", "region", "income")),
        *(("age", "sex"), ("age", "income"), ("income", "sex"), ("region", "sex")),
        ("age", "region", "sex"),
    )
    with small_release(folder, make_census(folder / "census", people=6000), tables=tables) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_kept(request):
    """Each test asks anew: answers of statements stay with an open release."""
    if "release" in request.fixturenames:
        models = request.getfixturevalue("release").models
        for kept in ("answers", "statements"):
            models.pop((kept,), None)
