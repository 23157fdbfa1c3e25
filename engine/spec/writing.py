"""How numbers and dates are written in a source of text: checks what a spec says of it.

Takes checked sections; gives a `schema.Writing`, and sentences for what cannot be meant.
"""

from __future__ import annotations

import datetime
import re

from engine.schema import Writing
from engine.spec.model import ColumnSection, SourceSection

DECIMALS = (".", ",")
THOUSANDS = ("", ".", ",", " ", "'")
_MOMENT = datetime.datetime(2013, 11, 29, 21, 47, 58)


def writing_of(section: SourceSection, problems: list[str]) -> Writing:
    """What `[source]` says of all columns."""
    writing = Writing(
        decimal=section.decimal, thousands=section.thousands, date_format=section.date_format
    )
    problems += _wrong(writing, "source")
    return writing


def own_writing(section: ColumnSection, usual: Writing, place: str, problems: list[str]) -> Writing:
    """What a column says of itself, else what `[source]` says."""
    said = (section.decimal, section.thousands, section.date_format)
    if said == (None, None, None):
        return usual
    writing = Writing(
        decimal=usual.decimal if section.decimal is None else section.decimal,
        thousands=usual.thousands if section.thousands is None else section.thousands,
        date_format=usual.date_format if section.date_format is None else section.date_format,
    )
    problems += _wrong(writing, place)
    return writing


def _wrong(writing: Writing, place: str) -> list[str]:
    """Say what cannot be meant."""
    problems = []
    if writing.decimal not in DECIMALS:
        problems.append(f'{place}.decimal: wants "." or ",", not {writing.decimal!r}')
    if writing.thousands not in THOUSANDS:
        listed = ", ".join(f'"{sign}"' for sign in THOUSANDS)
        problems.append(f"{place}.thousands: wants one of {listed}, not {writing.thousands!r}")
    elif writing.thousands == writing.decimal:
        problems.append(f"{place}.thousands: is the sign before the decimals, too")
    if writing.date_format and not _is_whole(writing.date_format):
        problems.append(
            f'{place}.date_format: wants year, month and day as strftime has them, such as "%d.%m.%Y" or '
            '"%m/%d/%Y %H:%M"'
        )
    return problems


def _is_whole(date_format: str) -> bool:
    """Whether a format tells a day."""
    try:
        written = _MOMENT.strftime(date_format)
        return datetime.datetime.strptime(written, date_format).date() == _MOMENT.date()
    except (ValueError, re.error):  # re.error: a part stands there twice, as in "%d.%d.%Y"
        return False
