"""Figures as files hold them: whole numbers, or ten significant digits; nothing where nothing is released."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.schema import BoolArray, FloatArray

FIGURES = ("value", "low", "high")


def rounded(figures: FloatArray, is_whole: bool) -> tuple[Any, BoolArray]:
    """Return figures as integers or with ten digits, 0 where there is none; and where there is one."""
    is_known = np.isfinite(figures)
    filled = np.where(is_known, figures, 0)
    return np.rint(filled).astype(np.int64) if is_whole else significant(filled), is_known


def significant(figures: FloatArray, digits: int = 10) -> FloatArray:
    """Return figures rounded to some significant digits: the rest is no information, and differs by platform."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(figures == 0, 0, np.floor(np.log10(np.abs(figures))))
    places = np.clip(digits - 1 - size, -15, 15).astype(np.int64)
    scale = 10.0 ** np.abs(places)
    up, down = np.rint(figures * scale) / scale, np.rint(figures / scale) * scale
    out: FloatArray = np.where(places >= 0, up, down)
    return out


def number_texts(figures: FloatArray, is_whole: bool) -> list[str]:
    """Return figures as text; empty where there is none."""
    numbers, is_known = rounded(figures, is_whole)
    pairs = zip(numbers.tolist(), is_known.tolist(), strict=True)
    return [plain_number(number) if known else "" for number, known in pairs]


def plain_number(number: float) -> str:
    """Return a number without an exponent: PC-Axis has none."""
    if isinstance(number, int):
        return str(number)
    return str(np.format_float_positional(number, trim="0"))
