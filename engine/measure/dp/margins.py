"""Noisy margins: what mode dp measures. Exact counts of public levels, then noise; the last module that sees a count.

Takes the opened source, the parameters and the public levels; gives margins whose every count carries fresh noise.
The order is: count, charge the ledger, draw, keep. Noisy counts are kept beside the key, one file a measurement, mode
0600, with a keyed digest; a build of the same vintage, levels and parameters uses them again, draws nothing and costs
nothing. Another build of the same rows and levels takes means, by precision, of its own counts and of those kept
before it, which is post-processing. Which measurements these are follows from declarations alone: whether anything is
measured, charged or refused never depends on the data. A source that changed under its vintage's name is told to the
custodian in writing.

What depends on the data and carries no noise: how long a build takes, and the remarks beside the kept counts, for the
custodian's eyes only: rows left out, cells that are not as declared, whether the source changed since.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from hmac import compare_digest
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import InternalError, SpecError, StoreError
from engine.keys import pack_strings
from engine.levels import Levels, Margin
from engine.measure.dp.accounting import (
    Cost,
    Share,
    cost,
    pooled_cost,
    promising,
    score_share,
    shares,
)
from engine.measure.dp.counting import counted, counter
from engine.measure.dp.ledger import (
    Balance,
    balance,
    charge,
    cost_of,
    mark_measured,
    measured_folder,
    note_exact,
)
from engine.measure.dp.noise import noised
from engine.params import DPParams
from engine.progress import Progress, silent
from engine.schema import Column, ColumnSet, FloatArray, Int64Array, Writing
from engine.source import Opened, locked, read_json, replace_file, sync_folder

_DIGEST_BYTES = 32
Expected = Callable[[Sequence[Margin], Margin, ColumnSet], FloatArray]
"""Counts of some columns that follow from noisy margins of single ones and the noisy total."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredMargins:
    """What crosses the wall in mode dp."""

    # Without columns; exact, of variance 0, where the number of rows is public or nothing is protected.
    total: Margin
    # In the order of the parameters' margins, of candidates those that were chosen; with the strata's columns in each.
    margins: tuple[Margin, ...]
    # By all builds whose counts these are means of; infinite if nothing is protected
    spent: Cost
    # The ledger, entry by entry, in plain public values; empty if nothing is protected.
    entries: tuple[dict[str, Any], ...] = ()
    # The counts were kept from an earlier build: nothing was drawn and nothing charged.
    is_reused: bool = False
    balance: Balance | None = None  # Of the ledger afterwards; None: nothing is protected
    remarks: Path | None = None  # CONFIDENTIAL file for the custodian; None: nothing is protected

    @property
    def counts(self) -> tuple[Margin, ...]:
        """The margins that are no sums."""
        return tuple(one for one in self.margins if not one.sum_of)


def measured_margins(
    opened: Opened,
    params: DPParams,
    levels: Mapping[str, Levels],
    *,
    key_path: Path,
    vintage: str,
    title: str,
    expected: Expected | None = None,
    report: Progress = silent,
) -> MeasuredMargins:
    """Measure every margin of the parameters, or take what an earlier build measured.

    expected: Of the candidates those are measured that are farthest from what it gives, see `drawn`.
    opened: Its table `rows_with_tokens` is used up, unless counts are kept.
    """
    if len(opened.entities) > 1:
        raise SpecError("source.entities: mode dp protects one kind of entity; name one column")
    sizes = {name: len(levels[name]) for name in params.columns}
    planned = shares(params, sizes)
    n_rows = opened.ingested.unsettled.get("rows", opened.ingested.n_rows)
    secret = opened.key.derive("fingerprint", vintage)
    name = measurement_id(opened, params, levels, vintage, secret)
    if params.epsilon is None:
        count = counter(opened, params, levels, None)
        total, *margins = counted(count, planned, params, n_rows, report)
        note_exact(key_path, id=name, vintage=vintage, title=title, margins=len(margins))
        return MeasuredMargins(total=total, margins=tuple(margins), spent=cost(params))
    remarks = remarks_path(key_path, name)
    path, is_reused = measured_folder(key_path) / f"{name}.npz", True
    rows = _rows_id(opened, params, levels, vintage, secret)
    measured = read_margins(path, name, secret)
    if measured is None:
        count = counter(opened, params, levels, secret)
        exact = counted(count, planned, params, n_rows, report)
        make_folder(path.parent)
        with locked(path.parent):  # two builds of the same: the second finds what the first kept
            measured = read_margins(path, name, secret)
            if measured is None:
                is_reused = False
                n = len(exact) - 1
                charge(key_path, params, id=name, vintage=vintage, title=title, margins=n)
                measured = drawn(exact, params, sizes, expected, report)
                write_margins(path, measured, name, secret, rows)
    mark_measured(key_path, name)
    with locked(path.parent):
        _write_remarks(remarks, opened, is_new=not is_reused)
    held = balance(key_path)
    before = takewhile(lambda entry: entry.id != name, held.entries)
    earlier = {entry.id: entry for entry in before if entry.vintage == vintage}
    found = {
        other: read_margins(path.with_name(f"{other}.npz"), other, secret, rows)
        for other in earlier
    }
    kept = {other: margins for other, margins in found.items() if margins}
    measured = _pooled(measured, [one for margins in kept.values() for one in margins])
    spent = pooled_cost(cost(params), [cost_of(earlier[other]) for other in kept])
    entries = tuple(entry.public() for entry in held.entries)
    return MeasuredMargins(
        total=measured[0],
        margins=measured[1:],
        spent=spent,
        entries=entries,
        is_reused=is_reused,
        balance=held,
        remarks=remarks,
    )


def measurement_id(
    opened: Opened, params: DPParams, levels: Mapping[str, Levels], vintage: str, secret: bytes
) -> str:
    """Keyed digest of all declarations that decide a measurement: source, levels, margins, noise, contribution bound.

    Columns outside `params.columns` do not matter, nor does what happens to the counts afterwards; nor the data, for
    what is measured anew is charged, and that would show.
    """
    measured = (params.margins, params.strata, params.ranges, params.sensitivity, params.max_rows)
    split = (params.allocation, params.total_share, params.public_n)
    budget = (params.noise, params.epsilon, params.delta, *split)
    data, of_columns, limits = _rows(opened, params, levels, vintage)
    parts = ["measurement", *map(repr, (data, of_columns, measured, budget)), *limits]
    further = {"candidates": params.candidates, "sums": params.sum_tables}
    parts += [repr(one) for one in further.items() if one[1]]
    return blake2b(pack_strings(parts), key=secret, digest_size=16).hexdigest()


def _rows_id(
    opened: Opened, params: DPParams, levels: Mapping[str, Levels], vintage: str, secret: bytes
) -> str:
    """Keyed digest of all declarations that decide exact counts, and what they may be charged: see `_pooled`."""
    data, of_columns, limits = _rows(opened, params, levels, vintage)
    parts = ["rows", *map(repr, (data, of_columns, params.max_rows, params.stability)), *limits]
    return blake2b(pack_strings(parts), key=secret, digest_size=16).hexdigest()


def _rows(
    opened: Opened, params: DPParams, levels: Mapping[str, Levels], vintage: str
) -> tuple[object, object, list[str]]:
    """What is declared of the source, of its columns and of their levels."""
    state = opened.state
    of_columns = [
        (name, state.encodings[name], level.has_null, level.values, *_reading(level.column))
        for name, level in ((name, levels[name]) for name in params.columns)
    ]
    limits = [
        getattr(levels[name], end).astype("<i8").tobytes().hex()
        for name in params.columns
        for end in ("low", "high")
    ]
    own = ("own",) if params.missing_ids == "own" else ()
    return (vintage, state.entities, opened.named, *own), of_columns, limits


def _reading(column: Column) -> tuple[object, ...]:
    """How a column's cells are read, and what becomes of those outside its domain, where it is not the default."""
    written = () if column.writing == Writing() else (column.writing,)
    nulls = () if column.spellings == ("",) else (column.spellings,)
    return (
        *(one for one in (column.outside, column.other) if one is not None),
        *written,
        *nulls,
    )


def remarks_path(key_path: Path, name: str) -> Path:
    """What the custodian reads about the source of a measurement."""
    return measured_folder(key_path) / f"{name}.remarks.json"


def _write_remarks(path: Path, opened: Opened, *, is_new: bool) -> None:
    """Tell the custodian, in writing, what of the source is not as declared."""
    contents = opened.state.contents
    told: dict[str, Any] = {"digests": contents}
    if not is_new:
        with suppress(FileNotFoundError):
            told = read_json(path) or told
    told |= {
        "CONFIDENTIAL": "Exact counts of the source, for its custodian only",
        "source": opened.ingested.unsettled,
        "source changed since it was measured": told.get("digests") != contents,
    }
    replace_file(path, json.dumps(told, indent=1).encode(), "the remarks for the custodian")


def drawn(
    exact: tuple[Margin, ...],
    params: DPParams,
    sizes: Mapping[str, int],
    expected: Expected | None,
    report: Progress,
) -> tuple[Margin, ...]:
    """Noisy margins: all, or, of the candidates, those that promise most by their noisy scores.

    A candidate's score is how many rows its counts are off by (sum of absolute differences) where they are expected
    from the noisy margins of single columns. One more entity changes it by no more than a count: by its rows.

    exact: The total, then all margins and candidates.
    """
    if not params.candidates:
        return noisy(exact, shares(params, sizes), params, report)
    if expected is None:
        raise InternalError("margins cannot be chosen without an estimate to compare them with")
    found = {one.measured: one for one in exact}
    first = shares(params, sizes, ())
    single = {(params.measured(one), "") for one in params.margins if len(one) == 1} | {((), "")}
    begun = noisy(
        tuple(one for one in exact if one.measured in single),
        tuple(share for share in first if share.measured in single),
        params,
        silent,
    )
    total, *columns = begun
    off = [
        np.abs(found[one, ""].n - np.rint(expected(columns, total, one)).astype(np.int64)).sum()
        for one in map(params.measured, params.candidates)
    ]
    scores = noised(np.array(off, dtype=np.int64), params.noise, score_share(params).scale)
    chosen = promising(params, sizes, scores.tolist(), float(total.n))
    rest = [share for share in shares(params, sizes, chosen) if share.measured not in single]
    wanted = tuple(found[share.measured] for share in rest)
    without_total = replace(params, public_n=True)
    return (*begun, *noisy(wanted, tuple(rest), without_total, report))


def noisy(
    exact: tuple[Margin, ...], planned: tuple[Share, ...], params: DPParams, report: Progress
) -> tuple[Margin, ...]:
    """Add to every count noise of its own; only a public total is left as it is."""
    paid = {share.measured: share for share in planned}
    if len(paid) != len(planned) or (((), "") in paid) == params.public_n:
        raise InternalError("the budget is not shared out margin by margin")
    out = []
    for done, margin in enumerate(exact):
        if margin.measured == ((), "") and params.public_n:
            out.append(margin)
            continue
        share = paid.get(margin.measured)
        if share is None or share.depths != len(margin.tree) + 1:
            raise InternalError("a margin, or a depth of a tree, is not paid for")
        n, *tree = (_drawn(counts, share, params) for counts in (margin.n, *margin.tree))
        out.append(
            Margin(
                columns=margin.columns,
                n=n,
                variance=share.variance,
                branching=margin.branching,
                tree=tuple(tree),
                sum_of=margin.sum_of,
            )
        )
        report("noise", done + 1, len(exact))
    return tuple(out)


def _pooled(measured: tuple[Margin, ...], kept: Sequence[Margin]) -> tuple[Margin, ...]:
    """Means of every margin and its earlier measurements by precision, rounded: that adds 1/12 to the variance."""
    out = []
    for margin in measured:
        same = [margin, *(one for one in kept if _shape(one) == _shape(margin))]
        precisions = [1 / one.variance if one.variance else math.inf for one in same]
        variance = 1 / sum(precisions) + 1 / 12
        if variance >= margin.variance:
            out.append(margin)
            continue
        shares_of = [precision / sum(precisions) for precision in precisions]
        n, *tree = (
            np.rint(sum(a * b for a, b in zip(shares_of, depth, strict=True))).astype(np.int64)
            for depth in zip(*((one.n, *one.tree) for one in same), strict=True)
        )
        out.append(replace(margin, n=n, tree=tuple(tree), variance=variance))
    return tuple(out)


def _shape(margin: Margin) -> tuple[object, ...]:
    """What two measurements of the same margin share."""
    return margin.measured, margin.n.shape, margin.branching, bool(margin.variance)


def _drawn(counts: Int64Array, share: Share, params: DPParams) -> Int64Array:
    """Noisy counts of the same shape."""
    return noised(counts.ravel(), params.noise, share.scale).reshape(counts.shape)


def make_folder(folder: Path) -> None:
    """Make the folder of kept counts, mode 0700, synced, before anything is charged."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        sync_folder(folder.parent)
    except OSError as error:
        raise StoreError(f"cannot make the folder {folder}: {error.strerror}") from None


def write_margins(
    path: Path, margins: tuple[Margin, ...], name: str, secret: bytes, rows: str
) -> None:
    """Keep noisy margins of some rows: arrays as numpy stores them, then a keyed digest."""
    about = [
        {
            "columns": margin.columns,
            "variance": margin.variance,
            "branching": margin.branching,
            "depths": len(margin.tree),
            "rows": rows,
            **({"sum_of": margin.sum_of} if margin.sum_of else {}),
        }
        for margin in margins
    ]
    arrays = [counts for margin in margins for counts in (margin.n, *margin.tree)]
    buffer = io.BytesIO()
    np.savez(buffer, np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), *arrays)
    data = buffer.getvalue()
    replace_file(path, data + _digest(data, name, secret), "the measured counts")


def read_margins(
    path: Path, name: str, secret: bytes, rows: str | None = None
) -> tuple[Margin, ...] | None:
    """Noisy margins that were kept; None if there are none, or they are of other rows than the given ones."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read the measured counts {path}: {error.strerror}") from None
    data, digest = raw[:-_DIGEST_BYTES], raw[-_DIGEST_BYTES:]
    if not compare_digest(digest, _digest(data, name, secret)):
        raise StoreError(
            f"the measured counts {path} are damaged: restore the file; or remove it, and the next build measures "
            "again and is charged again"
        )
    with np.load(io.BytesIO(data), allow_pickle=False) as held:
        about, *arrays = (held[f"arr_{number}"] for number in range(len(held)))
    counts, told = iter(arrays), json.loads(about.tobytes())
    if rows is not None and any(of.get("rows") != rows for of in told):
        return None  # or kept by a version that did not note them
    return tuple(
        Margin(
            columns=tuple(of["columns"]),
            n=next(counts),
            variance=of["variance"],
            branching=of["branching"],
            tree=tuple(islice(counts, of["depths"])),
            sum_of=of.get("sum_of", ""),
        )
        for of in told
    )


def _digest(data: bytes, name: str, secret: bytes) -> bytes:
    """Keyed digest of a file, under the name of its measurement."""
    keyed = blake2b(key=secret, person=b"measured", digest_size=_DIGEST_BYTES)
    keyed.update(name.encode())
    keyed.update(data)
    return keyed.digest()
