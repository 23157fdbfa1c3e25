"""Sections of a study about attacks: what an attacker knows, and wants to know.

Every section is optional; an unknown key is a mistake.
"""

from __future__ import annotations

from pydantic import Field

from engine.evaluation.score import Section


class Linkage(Section):
    """Probabilistic record linkage (Fellegi and Sunter 1969) of known people to synthetic rows.

    Attributes
    ----------
    columns : tuple of str
        ModeComparison; none: the quasi-identifiers.
    block : tuple of str
        Pairs are made of records that agree in these; none: chosen among the columns.
    targets : int
        People whom the attacker looks for; a sample where there are more.
    """

    columns: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    targets: int = Field(default=2_000, ge=1)


class Attacker(Section):
    """What an attacker knows of a person, and wants to know.

    Attributes
    ----------
    quasi_identifiers : tuple of str
        Columns that the attacker knows.
    targets : tuple of str
        Columns the attacker wants to know; none: all others.
    baselines : str, optional
        JSON file, column -> precision of a model on people outside the data; found beside the study or the data.
    keys : tuple of tuple of str
        Further sets of known columns, for the measures of single key sets (DiSCO, CAP); the quasi-identifiers are one.
    aligned : bool
        Row i of the synthetic table was made from row i of the original (partly synthetic data).
    attempts : int
        Most people attacked where an attack is expensive; a sample where there are more.
    model_rows : int
        Rows that a model learns from at most.
    """

    quasi_identifiers: tuple[str, ...]
    targets: tuple[str, ...] = ()
    baselines: str | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    aligned: bool = False
    linkage: Linkage = Linkage()
    attempts: int = Field(default=5_000, ge=1)
    model_rows: int = Field(default=8_000, ge=10)
