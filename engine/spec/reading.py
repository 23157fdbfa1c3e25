"""The spec: what to release, from where, about whom, with what privacy; one TOML file, checked in one pass.

Takes a file (or, from Python, its values); gives a frozen `ReleaseSpec`, or one `SpecError` that lists every mistake
with its place. It reads the spec, workload files next to it and the state of the key file; never the data. All keys
are described in REFERENCE.md, from the models of `engine.spec.model`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.errors import SpecError
from engine.key_files import check_key_file
from engine.params import (
    BOUNDS,
    PROFILES,
    DPParams,
    ExposureBounds,
    PrivacyParams,
    SwapParams,
    ZeroRule,
    bad_bound,
)
from engine.schema import Column, ColumnSet, SourceSpec, Writing, column_set
from engine.spec.columns import columns_from, with_levels, with_public_codes
from engine.spec.dp import DPContext, dp_from
from engine.spec.model import (
    DEFAULT_MOST,
    MAX_VINTAGE,
    SECTIONS,
    PrivacySection,
    ReleaseSection,
    SourceSection,
    SwapSection,
    TableEntry,
    checked,
    did_you_mean,
)
from engine.spec.source import check_names, knows_null, source_from, writing_of
from engine.spec.tables import (
    TableContext,
    WideOptions,
    expanded,
    table_context,
    weight_problems,
    wide_options,
    with_each,
    with_weight,
)
from engine.spec.workload import SqlReader, Workload
from engine.texts import parsed_toml
from engine.units import ENTITIES, ROWS, Unit, declared_unit, units_for

_BOUNDS = ("warn_at", "refuse_at", "max_looks", "accept_risk")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


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
    # The vintage that this one updates: whatever did not change keeps its noise. Mode sticky only.
    previous: str | None = None
    bounds: ExposureBounds = BOUNDS["standard"]  # How much may be disclosed about small groups
    # unit, entity: What a row and a protected entity are called.
    unit: Unit = ROWS
    entity: Unit = ENTITIES
    is_reviewed: bool = False  # A person has checked all settings marked as detected
    count: str = "rows"  # "rows", or "entities": each entity once
    # With "entities": once for each value of this column, which is in every table.
    each: str | None = None
    # With `each`: how many of its values count for one entity; a power of two.
    most: int | None = None
    weight: str | None = None  # Column of survey weights
    # What the statements of files need; None: there are no such files.
    workload: Workload | None = field(default=None, compare=False)
    # Options of wide tables.
    wide_options: dict[ColumnSet, WideOptions] = field(default_factory=dict)

    @property
    def targets(self) -> dict[ColumnSet, str]:
        """Targets of wide tables: the columns that models trained on them are to predict."""
        return {t: one.target for t, one in self.wide_options.items() if one.target is not None}

    @property
    def sets(self) -> dict[ColumnSet, int]:
        """Number of syntheses of the wide tables that have several."""
        return {table: one.sets for table, one in self.wide_options.items() if one.sets > 1}

    @property
    def counted(self) -> PrivacyParams:
        """The privacy parameters of what is counted: with `count = "entities"`, an entity has one row, or `most`."""
        if self.count == "rows":
            return self.privacy
        return replace(self.privacy, max_rows=self.most, max_rows_by="bucket", detected=())


def of_rows(spec: ReleaseSpec, instead: str) -> ReleaseSpec:
    """The same spec, if it counts rows: only then can it be compared with its source."""
    if spec.count != "rows":
        raise SpecError(
            f"release.count: tables of entities cannot be compared with the rows of their source; give {instead}"
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

    sql: Reads the statements in `[[tables]]`.
    tables: Entries to use in place of those in the file.
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
    """Return a commented spec that shows every key."""
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
    writing = writing_of(section, problems) if section else Writing()
    source = source_from(section, folder, problems) if section else None
    names, columns, dropped = columns_from(
        raw.get("columns", {}),
        tuple(section.nulls) if section and section.nulls is not None else None,
        problems,
        writing,
        knows_null=source is not None and knows_null(source),
        entities=source.entity_columns if source else (),
        folder=folder,
    )
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
    """Check a spec whose source and columns are made already, as `engine.source.detection.make_spec` does."""
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
    """Check the sections that depend on source and columns, and assemble the spec or report every mistake."""
    section = raw.get("release", {})
    release = checked(ReleaseSection, section, "release", problems)
    given = section if isinstance(section, dict) else {}
    key_path = _check_release(given, folder, problems, check_key=check_key)
    protection = _protection(raw.get("privacy", {}), problems)
    units = [declared_unit(given.get(k), f"release.{k}", problems) for k in ("unit", "entity")]
    if source is not None:
        check_names(source, names, problems)
    entities = source.entity_columns if source else ()
    n_kinds = len(source.entities) if source else 0
    bound = protection[0].max_rows if protection else None
    problems += _column_problems(
        columns, names, entities, is_bound=protection is None or bound is not None
    )
    is_dp = given.get("mode") == "dp"
    if protection and protection[0].swap:
        problems += swap_problems(protection[0].swap, columns, names, entities, is_dp=is_dp)
    if not is_dp:
        problems += [
            f"columns.{column.name}.other: only in mode dp, where a column has a list of codes"
            for column in columns
            if column.tree and column.other is not None
        ]
    else:
        columns = tuple(with_public_codes(column, problems) for column in columns)
    columns = with_levels(columns, problems)
    context = table_context(
        names, columns, entities, release, folder=folder, dropped=dropped, sql=sql, is_dp=is_dp
    )
    entries = _entries(raw.get("tables", []), problems)
    tables, workload = expanded(entries, context, problems)
    if release is not None:
        if release.weight is not None and (is_dp or release.count != "rows"):
            problems.append("release.weight: only in mode sticky, and where rows are counted")
        problems += count_problems(release, context.names, n_kinds, is_dp=is_dp)
        tables = with_each(tables, release.each, problems)
        problems += weight_problems(release.weight, context)
        tables = with_weight(tables, release.weight)
    options = wide_options(entries, context, problems)
    dp, zeros = _dp(
        raw, context, n_kinds, tables, source if is_dp else None, problems, is_needed=is_dp
    )
    if problems or release is None or source is None or protection is None:
        raise SpecError(problems)
    privacy, bounds = protection
    is_row_each = not dp.is_bound_said if is_dp and dp else privacy.max_rows in (None, 1)
    unit, entity = units_for(
        units[0], units[1], release.count, release.each, entities=entities, is_row_each=is_row_each
    )  # fmt: skip
    return ReleaseSpec(
        title=release.title,
        logical_name=release.name,
        vintage=release.vintage,
        mode=release.mode,
        notes=tuple(release.notes),
        previous=release.previous,
        is_reviewed=release.reviewed,
        key_path=key_path,
        source=source,
        columns=tuple(sorted(columns, key=lambda column: column.name)),
        privacy=privacy,
        tables=tables,
        dp=dp,
        zeros=zeros,
        bounds=bounds,
        workload=workload,
        wide_options=options,
        unit=unit,
        entity=entity,
        count=release.count,
        each=release.each,
        most=(release.most or DEFAULT_MOST) if release.each is not None else None,
        weight=release.weight,
    )


def _column_problems(
    columns: tuple[Column, ...],
    names: tuple[str, ...],
    entities: tuple[str, ...],
    *,
    is_bound: bool,
) -> list[str]:
    """Settings of columns that conflict with other columns, the entities, or the limit on rows."""
    problems = [
        f"columns.{c.name}.universe: {c.universe.column} identifies entities and is never fitted"
        for c in columns
        if c.universe is not None and c.universe.column in entities
    ]
    problems += [
        f"columns.{c.name}.determines: {implied!r} is not another column of the spec"
        if implied == c.name or implied not in names
        else f"columns.{c.name}.determines: {implied if implied in entities else c.name} identifies entities"
        for c in columns
        for implied in c.determines
        if implied == c.name or implied not in names or {implied, c.name}.intersection(entities)
    ]
    if not is_bound:
        problems += [
            f"columns.{c.name}.max_rows: needs privacy.max_rows too, the limit on the rows of one entity anywhere"
            for c in columns
            if c.max_rows is not None
        ]
    return problems


def _dp(
    raw: dict[str, Any],
    context: TableContext,
    n_kinds: int,
    tables: tuple[ColumnSet, ...],
    source: SourceSpec | None,
    problems: list[str],
    *,
    is_needed: bool,
) -> tuple[DPParams | None, tuple[ZeroRule, ...]]:
    """The section [dp], if there is one; mode dp needs it."""
    if "dp" not in raw:
        if is_needed:
            problems.append('dp: mode = "dp" needs a section [dp], such as: [dp] epsilon = 1.0')
        return None, ()
    return dp_from(
        raw["dp"],
        DPContext(
            names=(*context.names, *(c.name for c in context.columns or () if c.level_of)),
            entities=context.entities,
            n_kinds=n_kinds,
            columns=context.columns,
            tables=tables,
            source=source,
        ),
        problems,
    )


def _check_release(
    raw: dict[str, Any], folder: Path, problems: list[str], *, check_key: bool
) -> Path:
    """Check what can be checked of `[release]`, whatever else is wrong with it; return the key's path."""
    texts = {key: value for key, value in raw.items() if isinstance(value, str)}
    if not _IDENTIFIER.fullmatch(texts.get("name", "data")):
        problems.append(
            "release.name: must have at most 63 letters, digits and _, and not start with a digit"
        )
    vintage = texts.get("vintage", "1")
    if not vintage.strip() or len(vintage) > MAX_VINTAGE or not vintage.isprintable():
        problems.append(
            f'release.vintage: must be a short text, such as "2024-Q1" (1 to {MAX_VINTAGE} characters)'
        )
    if texts.get("previous") == vintage:
        problems.append("release.previous: is this vintage itself; name an earlier one")
    if texts.get("mode") == "dp" and "previous" in texts:
        problems.append("release.previous: not allowed in mode dp, which always draws fresh noise")
    key = texts.get("key", "")
    if key == "" and "key" in texts:
        problems.append("release.key: is empty; name a key file, made with: tablepack key new FILE")
    elif key and check_key:
        problems.extend(f"release.key: {sentence}" for sentence in check_key_file(folder / key))
    return folder / key


def _protection(raw: Any, problems: list[str]) -> tuple[PrivacyParams, ExposureBounds] | None:
    """The privacy parameters, never weaker than the floors, and the exposure bounds, never above the profile's."""
    section = checked(PrivacySection, raw, "privacy", problems)
    if section is None:
        return None
    given = section.model_dump(exclude={"profile", "swap"}, exclude_none=True)
    given["detected"] = tuple(section.detected)
    of_bounds = {name: given.pop(name) for name in _BOUNDS if name in given}
    usual = BOUNDS[section.profile]
    problems.extend(
        f"privacy.{name}: {of_bounds[name]:g} is more than {getattr(usual, name):g}, the bound of profile "
        f'{section.profile}; it can only be lowered. To build beyond it, give a reason: accept_risk = "..."'
        for name in ("warn_at", "refuse_at", "max_looks")
        if of_bounds.get(name, 0) > getattr(usual, name)
    )
    if "refuse_at" in of_bounds:
        of_bounds.setdefault("warn_at", min(usual.warn_at, of_bounds["refuse_at"]))
    swap = swap_of(section.swap, problems) if section.swap else None
    try:
        privacy = replace(PROFILES[section.profile], **given, swap=swap)
        return privacy, replace(usual, **of_bounds)
    except SpecError as error:
        problems.extend(error.problems)
        return None


def _entries(raw: Any, problems: list[str]) -> list[tuple[str, TableEntry]]:
    """Table entries with their places, counted from 1."""
    if not isinstance(raw, list) or not raw:
        problems.append("tables: at least one [[tables]] entry is needed")
        return []
    entries = []
    for number, values in enumerate(raw, start=1):
        entry = checked(TableEntry, values, f"tables[{number}]", problems)
        entries += [(f"tables[{number}]", entry)] if entry else []
    return entries


def count_problems(
    release: ReleaseSection, names: tuple[str, ...], n_kinds: int, *, is_dp: bool
) -> list[str]:
    """Say what is wrong with `count`, `each` and `most`."""
    if release.count == "rows":
        return [
            f'release.{key}: only allowed with count = "entities"'
            for key in ("each", "most")
            if getattr(release, key) is not None
        ]
    problems = []
    if is_dp:
        problems.append(
            "release.count: mode dp counts rows; max_rows = 1 in [dp] counts one per entity"
        )
    if n_kinds != 1:
        problems.append(
            'release.count: "entities" needs exactly one kind in source.entities, such as entities = ["patient"]'
        )
    if release.each is not None and release.each not in names:
        problems.append(
            f"release.each: no column {release.each!r} that tables can have{did_you_mean(release.each, names)}"
        )
    if release.most is not None and release.each is None:
        problems.append("release.most: needs release.each, the column whose values are limited")
    return problems + bad_bound("release.most", release.most)


def swap_of(section: SwapSection, problems: list[str]) -> SwapParams | None:
    """The parameters of record swapping; None if anything is wrong.

    Unless the spec says what makes a record rare, it is what partners agree in.
    """
    lists = (section.columns, section.within, section.similar, section.rare)
    keys = ("columns", "within", "similar", "rare")
    twice = [
        f"privacy.swap.{key}: names a column twice"
        for key, names in zip(keys, lists, strict=True)
        if len({*names}) < len(names)
    ]
    problems += twice
    if twice:
        return None
    try:
        return SwapParams(
            columns=column_set(tuple(section.columns)),
            within=column_set(tuple(section.within)),
            similar=tuple(section.similar),
            rare=column_set(tuple(section.rare or {*section.within, *section.similar})),
            rate=section.rate,
            publish_rate=section.publish_rate,
        )
    except SpecError as error:
        problems.extend(error.problems)
        return None


def swap_problems(
    swap: SwapParams,
    columns: tuple[Column, ...],
    names: Sequence[str],
    entities: tuple[str, ...],
    *,
    is_dp: bool,
) -> list[str]:
    """Say which settings of record swapping conflict with the rest of the spec."""
    problems = [
        f"privacy.swap: no section [columns.{name}]{did_you_mean(name, names)}"
        for name in swap.named
        if name not in names
    ]
    problems += [
        f"privacy.swap: {name} identifies entities; records are swapped, not entities"
        for name in swap.named
        if name in entities
    ]
    if is_dp:
        problems.append(
            "privacy.swap: not available in mode dp, whose guarantee follows from its noise alone"
        )
    return problems + _cut_links(swap, columns)


def _cut_links(swap: SwapParams, columns: tuple[Column, ...]) -> list[str]:
    """Columns that depend on each other, of which only one would be swapped."""
    links = [
        (c.name, c.universe.column, f"the universe of {c.name} is decided by {c.universe.column}")
        for c in columns
        if c.universe is not None
    ] + [(c.name, other, f"{c.name} determines {other}") for c in columns for other in c.determines]
    problems = []
    for one, other, why in links:
        ends = [name in swap.columns for name in (one, other)]
        stays = other if ends[0] else one
        if ends[0] != ends[1] and stays not in swap.within:
            problems.append(
                f"privacy.swap: {why}, so swapping only one of them would create impossible records; add {stays} to "
                "columns, or to within"
            )
    return problems
