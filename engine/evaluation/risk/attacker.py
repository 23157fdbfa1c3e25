"""Sections of a study about attacks: what an attacker knows, and wants to know.

Every section is optional; an unknown key is a mistake.
"""

from __future__ import annotations

from pydantic import Field

from engine.evaluation.score import Section


class Linkage(Section):
    """Probabilistic record linkage (Fellegi and Sunter 1969) of known people to synthetic rows."""

    columns: tuple[str, ...] = ()  # ModeComparison; none: the quasi-identifiers
    # Pairs are made of records that agree in these; none: chosen among the columns.
    block: tuple[str, ...] = ()
    # People whom the attacker looks for; a sample where there are more.
    targets: int = Field(default=2_000, ge=1)


class Attacker(Section):
    """What an attacker knows of a person, and wants to know."""

    quasi_identifiers: tuple[str, ...]  # Columns that the attacker knows
    targets: tuple[str, ...] = ()  # Columns the attacker wants to know; none: all others
    # JSON file, column -> precision of a model on people outside the data; found beside the study or the
    # data.
    baselines: str | None = None
    # Further sets of known columns, for the measures of single key sets (DiSCO, CAP); the quasi-identifiers
    # are one.
    keys: tuple[tuple[str, ...], ...] = ()
    # Row i of the synthetic table was made from row i of the original (partly synthetic data).
    aligned: bool = False
    linkage: Linkage = Linkage()
    # Most people attacked where an attack is expensive; a sample where there are more.
    attempts: int = Field(default=5_000, ge=1)
    model_rows: int = Field(default=8_000, ge=10)  # Rows that a model learns from at most
