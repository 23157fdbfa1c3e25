"""The spec: what to release, from where, about whom, with what privacy; one TOML file, checked in one pass.

Takes a file (or, from Python, its values); gives a frozen `ReleaseSpec`, or one `SpecError` that
tells every mistake with its place. It reads the spec, workload files beside it and the state of the
key file; never the data.
    [release]    title, name, vintage, previous, key, mode, notes, unit, entity, reviewed, count, each, most
    [source]     path, format, table, entities, identity, nulls, encoding, delimiter, skip, sheet,
                 decimal, thousands, date_format, sql
    [columns.X]  kind, type, resolution, step, domain, public, detected, nulls, placeholder, label, labels,
                 breaks, nullable, decimal, thousands, date_format, max_rows,
                 universe = {column, min, max | values, complete, outside}
    [privacy]    profile, low_threshold, threshold_mean, layer_sd, max_rows, max_rows_by, detected,
                 warn_at, refuse_at, max_looks, accept_risk,
                 swap = {columns, within, similar, rare, rate, publish_rate}          (mode sticky)
    [dp]         epsilon | guarantee = false, delta, noise, budget, allocation, total_share, public_n, max_rows,
                 method, margins, extra, strata, ranges, zeros, post, sample, prior,
                 max_cells, max_cycles, tolerance                    (mode dp, and what `compare` builds)
    [[tables]]   columns (target) | all (of) | sql | file (max_width)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.errors import SpecError
from engine.keys import check_key_file
from engine.params import BOUNDS, PROFILES, DPParams, ExposureBounds, PrivacyParams, ZeroRule
from engine.schema import Column, ColumnSet, SourceSpec, Writing
from engine.spec.columns import columns_from
from engine.spec.dp import DPContext, dp_from
from engine.spec.model import (
    SECTIONS,
    PrivacySection,
    ReleaseSection,
    SourceSection,
    TableEntry,
    checked,
    did_you_mean,
)
from engine.spec.source import check_names, source_from
from engine.spec.swapping import swap_of, swap_problems
from engine.spec.tables import TableContext, expanded, table_context
from engine.spec.units import count_of, count_problems, with_each
from engine.spec.wide import WideWish, wishes_of
from engine.spec.workload import SqlReader, Workload
from engine.spec.writing import writing_of
from engine.texts import parsed_toml
from engine.units import ENTITIES, ROWS, Unit, declared_unit, units_for

MODES = ("sticky", "dp")
_BOUNDS = ("warn_at", "refuse_at", "max_looks", "accept_risk")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_MAX_VINTAGE = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseSpec:
    """A checked spec."""

    title: str
    logical_name: str  # Name of the logical table in SQL
    vintage: str
    key_path: Path
    mode: str  # "sticky" or "dp"
    source: SourceSpec
    columns: tuple[Column, ...]  # All columns by name, entity columns among them
    privacy: PrivacyParams
    tables: tuple[ColumnSet, ...]  # Tables to publish, each once, by width, then name
    notes: tuple[str, ...] = ()  # Sentences for readers of the release
    dp: DPParams | None = None  # None only with mode "sticky", where the spec has no section [dp]
    # Combinations that [dp] declares impossible, in the order of the spec.
    zeros: tuple[ZeroRule, ...] = ()
    # The vintage that this one goes on from: what did not change keeps its noise. Mode sticky only.
    previous: str | None = None
    bounds: ExposureBounds = BOUNDS["standard"]  # How much of small groups may be told
    # unit, entity: What a row is called, and whom the release protects.
    unit: Unit = ROWS
    entity: Unit = ENTITIES
    is_reviewed: bool = False  # A person looked at all lines marked as detected
    count: str = "rows"  # "rows", or "entities": each entity once
    # With "entities": once for each value of this column, which is in every table.
    each: str | None = None
    # With `each`: so many of its values count of one entity; a power of two.
    most: int | None = None
    # What becomes of the statements of files; None: the spec names none.
    workload: Workload | None = field(default=None, compare=False)
    # What is wished of wide tables beside their columns.
    wishes: dict[ColumnSet, WideWish] = field(default_factory=dict)

    @property
    def targets(self) -> dict[ColumnSet, str]:
        """Of wide tables: the column that models trained on it are to predict."""
        return {t: wish.target for t, wish in self.wishes.items() if wish.target is not None}

    @property
    def sets(self) -> dict[ColumnSet, int]:
        """Of wide tables that are made more than once: how often."""
        return {table: wish.sets for table, wish in self.wishes.items() if wish.sets > 1}

    @property
    def counted(self) -> PrivacyParams:
        """The privacy parameters of what is counted: an entity has one row there, or `most`."""
        if self.count == "rows":
            return self.privacy
        return replace(self.privacy, max_rows=self.most, max_rows_by="bucket", detected=())


def of_rows(spec: ReleaseSpec, instead: str) -> ReleaseSpec:
    """The same spec, if it counts rows: what is compared with its source must count the same."""
    if spec.count != "rows":
        raise SpecError(
            f"release.count: tables of entities are not compared with the rows of their source; give {instead}"
        )
    return spec


def read_spec(
    path: str | Path,
    *,
    check_key: bool = True,
    sql: SqlReader | None = None,
    tables: Sequence[Mapping[str, Any]] = (),
) -> ReleaseSpec:
    """Read and check a spec file.

    sql: Reads the statements of `[[tables]]` entries with `sql` or with a file of statements.
    """
    path = Path(path)
    try:
        raw = parsed_toml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SpecError(
            f"no spec file {path}; make one with: tablepack init DATA -o {path}"
        ) from None
    except UnicodeDecodeError as error:
        raise SpecError(f"spec file {path}: is not UTF-8 (at byte {error.start + 1})") from None
    except OSError:
        raise SpecError(f"spec file {path}: cannot be read") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"spec file {path}: is not TOML: {error}") from None
    if tables:
        raw["tables"] = list(tables)
    return spec_from(raw, folder=path.parent, check_key=check_key, sql=sql)


def example_spec() -> str:
    """Return a commented spec that names every key."""
    return (Path(__file__).parent / "example.toml").read_text(encoding="utf-8")


def spec_from(
    raw: dict[str, Any],
    *,
    folder: Path,
    check_key: bool = True,
    sql: SqlReader | None = None,
) -> ReleaseSpec:
    """Check the values of a spec file."""
    problems = [
        f"{k}: unknown section{did_you_mean(k, SECTIONS)}" for k in raw if k not in SECTIONS
    ]
    section = checked(SourceSection, raw.get("source", {}), "source", problems, keep_rest=True)
    nulls = tuple(section.nulls) if section else ("",)
    writing = writing_of(section, problems) if section else Writing()
    names, columns, dropped = columns_from(raw.get("columns", {}), nulls, problems, writing)
    source = source_from(section, folder, problems) if section else None
    return _assembled(
        {key: raw[key] for key in ("release", "privacy", "dp", "tables") if key in raw},
        source,
        names,
        columns,
        problems,
        folder=folder,
        check_key=check_key,
        sql=sql,
        dropped=dropped,
    )


def spec_of(
    *,
    release: dict[str, Any],
    source: SourceSpec,
    columns: tuple[Column, ...],
    tables: list[dict[str, Any]],
    privacy: dict[str, Any],
    dp: Mapping[str, Any] | None = None,
    check_key: bool = True,
    problems: Sequence[str] = (),
) -> ReleaseSpec:
    """Check a spec whose source and columns are there already, as `made_spec.make_spec` has them."""
    return _assembled(
        {"release": release, "privacy": privacy, "tables": tables}
        | ({} if dp is None else {"dp": dict(dp)}),
        source,
        tuple(column.name for column in columns),
        columns,
        list(problems),
        folder=Path(),
        check_key=check_key,
        sql=None,
    )


def _assembled(
    raw: dict[str, Any],
    source: SourceSpec | None,
    names: tuple[str, ...],
    columns: tuple[Column, ...],
    problems: list[str],
    *,
    folder: Path,
    check_key: bool,
    sql: SqlReader | None,
    dropped: frozenset[str] = frozenset(),
) -> ReleaseSpec:
    """Check the sections that stand on source and columns, and put all together or tell every mistake."""
    section = raw.get("release", {})
    release = checked(ReleaseSection, section, "release", problems)
    texts = section if isinstance(section, dict) else {}
    key_path = _check_release(texts, folder, problems, check_key=check_key)
    protection = _protection(raw.get("privacy", {}), problems)
    units = [declared_unit(texts.get(k), f"release.{k}", problems) for k in ("unit", "entity")]
    if source is not None:
        check_names(source, names, problems)
    entities = source.entities if source else ()
    bound = protection[0].max_rows if protection else None
    problems += _column_problems(
        columns, names, entities, is_bound=protection is None or bound is not None
    )
    is_dp = texts.get("mode") == "dp"
    if protection and protection[0].swap:
        problems += swap_problems(protection[0].swap, columns, names, entities, is_dp=is_dp)
    context = table_context(
        names, columns, entities, release, folder=folder, dropped=dropped, sql=sql, is_dp=is_dp
    )
    tables, workload, wishes = _tables(raw, release, context, problems, is_dp=is_dp)
    dp, zeros = _dp(raw, context, tables, problems, is_needed=is_dp)
    if problems or release is None or source is None or protection is None:
        raise SpecError(problems)
    privacy, bounds = protection
    is_row_each = not dp.is_bound_said if is_dp and dp else privacy.max_rows in (None, 1)
    unit, entity = units_for(
        units[0], units[1], release.count, release.each, entities=entities, is_row_each=is_row_each
    )  # fmt: skip
    return ReleaseSpec(
        **_said(release),
        key_path=key_path,
        source=source,
        columns=tuple(sorted(columns, key=lambda column: column.name)),
        privacy=privacy,
        tables=tables,
        dp=dp,
        zeros=zeros,
        bounds=bounds,
        workload=workload,
        wishes=wishes,
        **(count_of(release) | {"unit": unit, "entity": entity}),
    )


def _said(release: ReleaseSection) -> dict[str, Any]:
    """What `[release]` says as it is."""
    return {
        "title": release.title,
        "logical_name": release.name,
        "vintage": release.vintage,
        "mode": release.mode,
        "notes": tuple(release.notes),
        "previous": release.previous,
        "is_reviewed": release.reviewed,
    }


def _tables(
    raw: dict[str, Any],
    release: ReleaseSection | None,
    context: TableContext,
    problems: list[str],
    *,
    is_dp: bool,
) -> tuple[tuple[ColumnSet, ...], Workload | None, dict[ColumnSet, WideWish]]:
    """The tables of the spec, of what it counts, what becomes of the statements of files, and wishes."""
    entries = _entries(raw.get("tables", []), problems)
    tables, workload = expanded(entries, context, problems)
    if release is not None:
        problems += count_problems(release, context.names, context.entities, is_dp=is_dp)
        tables = with_each(tables, release.each, problems)
    return tables, workload, wishes_of(entries, context, problems)


def _column_problems(
    columns: tuple[Column, ...],
    names: tuple[str, ...],
    entities: tuple[str, ...],
    *,
    is_bound: bool,
) -> list[str]:
    """What columns say that does not go with each other, the entities, or how many rows of one count."""
    problems = [
        f"columns.{c.name}.universe: {c.universe.column} names entities and is never fitted"
        for c in columns
        if c.universe is not None and c.universe.column in entities
    ]
    problems += [
        f"columns.{c.name}.determines: {told!r} is not another column of the spec"
        if told == c.name or told not in names
        else f"columns.{c.name}.determines: {told if told in entities else c.name} names entities"
        for c in columns
        for told in c.determines
        if told == c.name or told not in names or {told, c.name}.intersection(entities)
    ]
    if not is_bound:
        problems += [
            f"columns.{c.name}.max_rows: wants privacy.max_rows too: the most rows that one entity has anywhere"
            for c in columns
            if c.max_rows is not None
        ]
    return problems


def _dp(
    raw: dict[str, Any],
    context: TableContext,
    tables: tuple[ColumnSet, ...],
    problems: list[str],
    *,
    is_needed: bool,
) -> tuple[DPParams | None, tuple[ZeroRule, ...]]:
    """The section [dp], where there is one; mode dp needs it."""
    if "dp" not in raw:
        if is_needed:
            problems.append('dp: mode = "dp" wants a section [dp], such as: [dp] epsilon = 1.0')
        return None, ()
    return dp_from(
        raw["dp"],
        DPContext(
            names=context.names, entities=context.entities, columns=context.columns, tables=tables
        ),
        problems,
    )


def _check_release(
    raw: dict[str, Any], folder: Path, problems: list[str], *, check_key: bool
) -> Path:
    """Check what can be checked of `[release]`, whatever else is wrong with it; gives the key's path."""
    texts = {key: value for key, value in raw.items() if isinstance(value, str)}
    if not _IDENTIFIER.fullmatch(texts.get("name", "data")):
        problems.append(
            "release.name: wants letters, digits and _ only, not a digit first, at most 63"
        )
    vintage = texts.get("vintage", "1")
    if not vintage.strip() or len(vintage) > _MAX_VINTAGE or not vintage.isprintable():
        problems.append(
            f'release.vintage: wants a short text, such as "2024-Q1" (1 to {_MAX_VINTAGE} signs)'
        )
    if texts.get("previous") == vintage:
        problems.append("release.previous: is this vintage itself; name an earlier one")
    if texts.get("mode") == "dp" and "previous" in texts:
        problems.append(
            "release.previous: mode dp draws fresh noise; its ledger adds up without it"
        )
    if texts.get("mode", MODES[0]) not in MODES:
        problems.append(f'release.mode: wants "sticky" or "dp", not {raw["mode"]!r}')
    key = texts.get("key", "")
    if key == "" and "key" in texts:
        problems.append("release.key: is empty; name a key file, made with: tablepack key new FILE")
    elif key and check_key:
        problems.extend(f"release.key: {sentence}" for sentence in check_key_file(folder / key))
    return folder / key


def _protection(raw: Any, problems: list[str]) -> tuple[PrivacyParams, ExposureBounds] | None:
    """The privacy parameters, never weaker than the floors, and the bounds, never wider than the profile's."""
    section = checked(PrivacySection, raw, "privacy", problems)
    if section is None:
        return None
    stated = section.model_dump(exclude={"profile", "swap"}, exclude_none=True)
    stated["detected"] = tuple(section.detected)
    of_bounds = {name: stated.pop(name) for name in _BOUNDS if name in stated}
    usual = BOUNDS[section.profile]
    problems.extend(
        f"privacy.{name}: {of_bounds[name]:g} is more than {getattr(usual, name):g}, the bound of profile "
        f'{section.profile}; it can be made smaller only. What goes beyond it is accepted by accept_risk = "why"'
        for name in ("warn_at", "refuse_at", "max_looks")
        if of_bounds.get(name, 0) > getattr(usual, name)
    )
    if "refuse_at" in of_bounds:
        of_bounds.setdefault("warn_at", min(usual.warn_at, of_bounds["refuse_at"]))
    swap = swap_of(section.swap, problems) if section.swap else None
    try:
        privacy = replace(PROFILES[section.profile], **stated, swap=swap)
        return privacy, replace(usual, **of_bounds)
    except SpecError as error:
        problems.extend(error.problems)
        return None


def _entries(raw: Any, problems: list[str]) -> list[tuple[str, TableEntry]]:
    """Table entries with their places, counted from 1."""
    if not isinstance(raw, list) or not raw:
        problems.append("tables: ask for at least one table in an entry [[tables]]")
        return []
    entries = []
    for number, values in enumerate(raw, start=1):
        entry = checked(TableEntry, values, f"tables[{number}]", problems)
        entries += [(f"tables[{number}]", entry)] if entry else []
    return entries
