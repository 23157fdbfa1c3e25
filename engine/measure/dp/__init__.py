"""CONFIDENTIAL. Measure, mode dp: margins of public levels with OpenDP's noise, charged to the ledger first.

Takes encoded rows with tokens, `DPParams`, public levels, the key file's folder.
Gives `MeasuredMargins`: noisy margins, kept beside the key so that they are drawn once.
May import the engine's root, `engine.spec`, `engine.source`, `engine.measure`.
"""

from __future__ import annotations

from engine.measure.dp.accounting import (
    CHOICE_SHARE,
    Cost,
    Share,
    alternatives,
    cost,
    settled,
    shares,
    worst_sd,
)
from engine.measure.dp.counting import counted
from engine.measure.dp.domains import levels_of, zeros_of
from engine.measure.dp.ledger import (
    Balance,
    balance,
    decimal_text,
    measured_folder,
    set_budget,
    spent_by,
)
from engine.measure.dp.margins import MeasuredMargins, drawn, measured_margins
from engine.source import ledger_path

__all__ = [
    "CHOICE_SHARE",
    "Balance",
    "Cost",
    "MeasuredMargins",
    "Share",
    "alternatives",
    "balance",
    "cost",
    "counted",
    "decimal_text",
    "drawn",
    "ledger_path",
    "levels_of",
    "measured_folder",
    "measured_margins",
    "set_budget",
    "settled",
    "shares",
    "spent_by",
    "worst_sd",
    "zeros_of",
]
