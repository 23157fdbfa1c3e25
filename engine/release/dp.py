"""Measure in mode dp: from a spec to a folder of noisy margins. Rows, key and true counts are seen here only."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from hashlib import blake2b
from typing import Any

from engine.errors import SpecError
from engine.fit.joint import expected_counts
from engine.fit.order import JointOrder
from engine.fit.replay_dp import stated
from engine.guarantee import Guarantee
from engine.keys import pack_strings
from engine.levels import Levels
from engine.measure.dp import MeasuredMargins, levels_of, measured_margins, settled, zeros_of
from engine.params import DPParams
from engine.progress import Progress
from engine.release.folder import MeasurementFolder
from engine.release.header import MeasuredRelease, header_of
from engine.schema import column_set, entity_name
from engine.source import Opened, open_rows
from engine.spec import ReleaseSpec
from engine.store import as_text, words_of

MOST_STATED = 2**15
"""Characters of JSON that margins and public levels are stated in; longer lists are not stated, and nobody can
replay it: half of what a text of the catalogue may have."""


def measure_joint(
    spec: ReleaseSpec,
    folder: MeasurementFolder,
    report: Progress,
    *,
    frame: Any = None,
    on_open: Callable[[str], None] = lambda _: None,
) -> MeasuredRelease:
    """Read, charge and measure: all that a fit needs is then in the folder."""
    with open_rows(spec, frame, report) as opened:
        columns = tuple(c for c in opened.ingested.columns if c.name in params_of(spec).columns)
        levels = {column.name: levels_of(column) for column in columns}
        sizes = {name: len(one) for name, one in levels.items()}
        params = settled(params_of(spec), sizes)
        on_open(opened.fingerprint)
        zeros = zeros_of(spec.columns, spec.zeros, levels)
        measured = measured_margins(
            opened,
            params,
            levels,
            expected=partial(expected_counts, params=params, sizes=sizes, zeros=zeros),
            key_path=spec.key_path,
            vintage=spec.vintage,
            title=spec.title,
            report=report,
        )
        order = joint_order(spec, opened, params_after(params, measured), levels, measured)
    # The rows are gone before the fit begins.
    folder.begin(order.build_id, order, (measured.total, *measured.margins))
    folder.finish()
    return MeasuredRelease(key_id=order.header.key_id, recipe=None, exposure={})


def params_of(spec: ReleaseSpec) -> DPParams:
    """The parameters of mode dp."""
    if spec.dp is None:
        raise SpecError("dp: is missing; mode dp needs a section [dp] with epsilon")
    return spec.dp


def params_after(params: DPParams, measured: MeasuredMargins) -> DPParams:
    """The parameters with the candidates that were chosen as margins."""
    if not params.candidates:
        return params
    margins = (column_set(tuple({*m.columns} - {*params.strata})) for m in measured.counts)
    return replace(params, margins=tuple(margins), candidates=())


def joint_order(
    spec: ReleaseSpec,
    opened: Opened,
    params: DPParams,
    levels: Mapping[str, Levels],
    measured: MeasuredMargins,
) -> JointOrder:
    """How these margins are to be fitted."""
    spent = {
        name: value if math.isfinite(value) else None
        for name, value in asdict(measured.spent).items()
    }
    promise = promised(spec, params, spent, measured.balance.public() if measured.balance else {})
    columns = tuple(level.column for level in levels.values())
    released = replace(params, budget=None)  # the custodian's, and no matter of this release
    privacy = asdict(released)
    del privacy["is_bound_said"], privacy["or_laplace"], privacy["candidates"]
    for name in ("sum_tables", "levels"):
        if not privacy[name]:
            del privacy[name]
    zeros = zeros_of(spec.columns, spec.zeros, levels)
    as_stated = stated(measured.total, measured.margins, levels, zeros, as_text)
    if len(json.dumps(as_stated)) > MOST_STATED:
        del as_stated["signals"]  # replays can do without, less exactly
    if len(json.dumps(as_stated)) <= MOST_STATED:
        privacy["measured"] = as_stated
    return JointOrder(
        header=header_of(
            spec,
            opened,
            columns,
            privacy=privacy,
            notes=tuple(Guarantee.of(promise).sentences()),
        ),
        build_id=build_id(opened.fingerprint, measured),
        levels=dict(levels),
        zeros=zeros,
        params=released,
        sampling_key=opened.key.derive("sampling", spec.vintage),
        cost=spent,
        promised=promise,
        margins=tuple(one.columns for one in (measured.total, *measured.counts)),
        sums=tuple(one.measured for one in measured.margins if one.sum_of),
        ledger=measured.entries,
    )


def promised(
    spec: ReleaseSpec,
    params: DPParams,
    spent: Mapping[str, float | None],
    with_key: Mapping[str, Any],
) -> dict[str, Any]:
    """What cards, notes and plans say of the guarantee, in plain values: see `Guarantee.of`.

    spent: `epsilon`, `delta` and `rho` of this build.
    with_key: The same of all builds with the key; empty: nothing is protected.
    """
    promise: dict[str, Any] = {
        **spent,
        "max_rows": params.max_rows,
        "words": words_of(spec.unit, spec.entity),
        "ids": [entity_name(one) for one in spec.source.entities],
        "total": "public" if params.public_n or not params.is_protected else "noisy",
    }
    if params.is_bound_said and params.max_rows == 1:
        promise["is_bound_said"] = True
    if params.stability is not None:
        promise["stability"] = params.stability
    if params.missing_ids == "own":
        promise["missing_ids"] = "own"
    if params.accept_delta:
        promise["accept_delta"] = params.accept_delta
    return promise | ({"with_key": dict(with_key)} if with_key else {})


def build_id(fingerprint: str, measured: MeasuredMargins) -> str:
    """Digest of all that decides a release: counts that were measured anew begin a staging area anew."""
    digest = blake2b(pack_strings(["joint", fingerprint]), digest_size=16)
    for margin in (measured.total, *measured.margins):
        of = [margin.sum_of] if margin.sum_of else []
        shape = repr((margin.n.shape, margin.variance))
        digest.update(pack_strings([*margin.columns, shape, *of]))
        for counts in (margin.n, *margin.tree):
            digest.update(counts.astype("<i8").tobytes())
    return digest.hexdigest()
