"""The figures that reports are tested with."""

from __future__ import annotations

import pytest
from fixtures.report import CATALOGUE

from engine.evaluation.report import verdicts


@pytest.fixture(autouse=True, scope="module")
def few_figures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "FIGURES", CATALOGUE)
        yield
