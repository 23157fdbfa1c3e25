"""Releases that most tests of intervals read: each is built once."""

from __future__ import annotations

import pytest
from fixtures.intervals import small_release
from fixtures.pipeline import make_census
from fixtures.stays import release_of_stays

from queries.intervals.statement import answers


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


@pytest.fixture(scope="session")
def stays(tmp_path_factory):
    """Stays of patients, few of them in one ward."""
    with release_of_stays(tmp_path_factory.mktemp("stays")) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_kept(request, monkeypatch):
    """Each test asks anew: answers of statements stay with an open release. However busy the machine is, in time."""
    monkeypatch.setattr(answers, "MOST_S", 600.0)
    if "release" in request.fixturenames:
        release = request.getfixturevalue("release")
        release.timeout_s = 600.0
        release.models.pop(("answers",), None)
