"""Finds columns that name somebody only together: household and number in it, site and number of the patient there.

Takes a table on a confidential connection; gives the columns, and how sure it is. What tells: a number that occurs
again in other households; together the columns are of one row each, or of rows that agree in what neither of them
tells; and their names. Counts carry a noisy slack, as those of `suspects`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, Literal

from engine.schema import entity_name
from engine.source.detection.determined import Table
from engine.source.detection.names import reads_like_an_identifier, words_of
from engine.source.detection.suspects import MOST_TOLD, NEARLY_ALL, about_distinct, agreed
from engine.source.detection.thresholds import MEAN, Thresholds
from engine.source.encoding import joined_sql
from engine.source.relation import fetch

MOST_GROUPS, MOST_NUMBERS = 4, 6
"""Columns that are tried as a household, or as a number in it."""
WIDEST = 2
"""Columns that name a group together: a school and a class in it."""
SEVERAL = 1.5
"""Numbers of a group, and groups of a number, on average."""
_GROUPS = frozenset(
    (
        "household households hh hhid hhno hhnr serial haushalt haushalts menage foyer hogar vivienda familia "
        "famiglia agregado domicilio domicilium nucleo huishouden hushall husholdning husstand kotitalous "
        "gospodarstwo rodzina domacnost haztartas hane family familie dwelling wohnung logement site sites center "
        "centre clinic clinics hospital practice klinik klinikum praxis zentrum standort studienzentrum hopital "
        "clinique cabinet etablissement centro sede clinica ospedale ziekenhuis sjukhus sykehus sairaala szpital "
        "nemocnice korhaz hastane school schule ecole escuela scuola escola skola skole koulu szkola class classe "
        "klasse aula curso firm company betrieb unternehmen entreprise empresa azienda impresa bedrijf foretag "
        "cluster psu ea village grappe conglomerado upm"
    ).split()
)
_MEMBERS = frozenset(
    (
        "person persons persona personne pessoa persoon henkilo osoba szemely kisi pernum perno pern pno pnr pnum "
        "persno persnr persnum pid member membre miembro membro mitglied lid medlem individual individuo individu "
        "indiv ind lineno line hvidx pline lfd laufende ordinal orden ordre patient patienten paciente paziente "
        "pacjent patientnr potilas pasient subject subjid proband participant respondent pupil student schueler eleve "
        "alumno studente elev uczen employee mitarbeiter salarie empleado dipendente"
    ).split()
)
_TIMES = frozenset(
    (
        "visit wave round year month week day quarter date time period term episode visite welle runde jahr monat "
        "woche tag vague annee mois semaine jour ola ano mes semana dia onda anno mese settimana giorno termin besuch "
        "item question frage t"
    ).split()
)
"""Number the rows of one person, not persons."""
_NUMBERS = frozenset(
    (
        "id ids uid key code codigo kod no nr num number numero nummer numer numeris n cislo szam numarasi lfd "
        "laufende ordinal orden ordre sequence seq of in within the de la le du des del della do da di im der den i"
    ).split()
)
"""Say nothing of whose number it is."""
_ENDING = re.compile(r"(s|e?n)?(nummer|numero|number|num|nr|no|id|kennung|code|kod)$")
_KNOWN = _GROUPS | _MEMBERS
_SCRIPTS: Mapping[str, re.Pattern[str]] = {
    "group": re.compile(
        "世帯|家庭|户号|戶號|住户|住戶|病院|医院|醫院|施設|中心|学校|學校|班级|가구|세대|병원|기관|학교"
        "|домохоз|хозяйств|семь|семей|центр|больниц|клиник|школ|νοικοκυρ|κέντρο|κεντρο|νοσοκομ|σχολε"
        "|أسرة|الأسرة|مستشفى|مركز|مدرسة|בית.חולים|משק.בית|מרכז|परिवार|अस्पताल|केंद्र"
    ),
    "member": re.compile(
        "患者|個人|个人|人员|人員|成员|成員|世帯員|家族員|被験者|学生|學生|환자|가구원|개인|학생"
        "|пациент|человек|лиц|персон|член|участник|респондент|учен|ατομ|άτομ|μέλο|μελο|ασθεν|μαθητ"
        "|فرد|شخص|مريض|عضو|طالب|תלמיד|מטופל|נפש|אדם|व्यक्ति|सदस्य|मरीज|रोगी"
    ),
}
Role = Literal["group", "member", "time", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Together:
    """Columns that name somebody together: those of the group, and last the number in it."""

    columns: tuple[str, ...]
    is_sure: bool  # Names and values say so; else the values alone


@dataclass(frozen=True, kw_only=True, slots=True)
class _Facts:
    """What the values of a group's columns and of a number in it say."""

    is_numbered: bool  # Groups have several numbers, and numbers occur in several groups
    is_counted: (
        bool  # From one, or nought, upwards in nearly every group, which are of several sizes
    )
    is_one: bool  # Nearly every pair has one row, or its rows agree in what neither column tells


def named_together(table: Table, columns: Sequence[str], thresholds: Thresholds) -> Together | None:
    """Columns that name somebody together; None if there are none.

    table: Each row is one.
    columns: Those that may name somebody: numbers or texts.
    """
    many = about_distinct(table)
    fitting = [name for name in columns if many[name] > 1]
    roles = {name: role_of(name) for name in fitting}
    by_size = sorted(fitting, key=lambda name: -many[name])
    doubtful = None
    for groups, number, is_named in _tries(roles, by_size):
        facts = _facts(table, groups, number, thresholds)
        found = (*groups, number)
        if not facts.is_numbered:
            continue
        if is_named == 2 and len(groups) == 1 and facts.is_one:
            return Together(columns=found, is_sure=True)
        if facts.is_one and facts.is_counted and (is_named == 2 or roles[number] == "member"):
            return Together(columns=found, is_sure=True)
        if facts.is_counted and (facts.is_one or is_named == 2):
            doubtful = doubtful or Together(columns=found, is_sure=False)
    only = [name for name in fitting if roles[name] == "group"]
    if doubtful is None:
        return None
    # Of several groups, a narrower one may be meant.
    is_sure = only == [doubtful.columns[0]] and roles[doubtful.columns[-1]] == "member"
    return replace(doubtful, is_sure=is_sure)


def _tries(
    roles: Mapping[str, Role], by_size: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """Columns of a group, the number in it, and how many of the two are named so: what is likely first."""
    groups = [name for name in roles if roles[name] == "group"][:MOST_GROUPS]
    numbers = [name for name in roles if roles[name] == "member"][:MOST_NUMBERS]
    for width in range(1, WIDEST + 1):
        yield from ((of, number, 2) for of, number in product(combinations(groups, width), numbers))
    others = [name for name in by_size if roles[name] == "none"]
    yield from (((of,), number, 1) for number in numbers for of in others[:MOST_GROUPS])
    counts = others[::-1][:MOST_NUMBERS]
    yield from (((of,), number, 1) for of in groups for number in counts)
    for of, number in product(others[:MOST_GROUPS], counts):
        if of != number:
            yield (of,), number, 0


def role_of(name: str) -> Role:
    """What the name of a column says: a household or site, somebody in it, or when something was."""
    folded = unicodedata.normalize("NFC", name).casefold()
    for role in ("member", "group"):
        if _SCRIPTS[role].search(folded):
            return role
    words = [word for word in words_of(name) if word not in _NUMBERS]
    words = [word if word in _KNOWN else _ENDING.sub("", word) for word in words]
    if all(word in _KNOWN for word in words):
        return "group" if words and _MEMBERS.isdisjoint(words) else "member"
    if not _TIMES.isdisjoint(words):
        return "time"
    return "member" if reads_like_an_identifier(name) == "strong" else "none"


def _facts(table: Table, groups: Sequence[str], number: str, thresholds: Thresholds) -> _Facts:
    """Look at a group's columns and a number in it."""
    cells = [table.columns[name] for name in (*groups, number)]
    group, both = joined_sql(cells[:-1]), joined_sql(cells)
    pairs = (
        f"SELECT {group} AS g, {cells[-1]} AS b, count(*) AS n FROM {table.name} "
        f"WHERE {both} IS NOT NULL GROUP BY ALL"
    )
    n_pairs, n_rows, n_alone, n_numbers, n_groups = _row(
        table,
        "SELECT count(*), coalesce(sum(n), 0), coalesce(sum(n) FILTER (n = 1), 0), count(DISTINCT b), "
        f"count(DISTINCT g) FROM ({pairs})",
    )
    enough = thresholds.of("key", number, entity_name(tuple(groups)))
    none = _Facts(is_numbered=False, is_counted=False, is_one=False)
    if n_groups < enough or n_pairs < SEVERAL * max(n_groups, n_numbers):
        return none
    others = [name for name in table.columns if name not in (*groups, number)][:MOST_TOLD]
    names = {"\0group": group, "\0number": cells[-1], "\0both": both}  # no column is called so
    beside = replace(table, columns={name: table.columns[name] for name in others} | names)
    if agreed(beside, "\0number", others):
        return none  # it names somebody by itself
    share, is_varied = _row(
        table,
        "SELECT avg(CAST(is_counted AS INTEGER)), min(k) < max(k) FROM (SELECT count(*) AS k, "
        "coalesce(min(v) IN (0, 1) AND max(v) - min(v) + 1 = count(*), false) AS is_counted "
        f"FROM (SELECT g, TRY_CAST(b AS BIGINT) AS v FROM ({pairs})) GROUP BY g)",
    )
    is_one = n_alone >= NEARLY_ALL * n_rows - max(enough - MEAN // 2, 0)
    if not is_one:
        told = {*agreed(beside, "\0both", others)} - {*agreed(beside, "\0group", others)}
        is_one = bool(told)
    return _Facts(
        is_numbered=True, is_counted=bool(is_varied) and share >= NEARLY_ALL, is_one=is_one
    )


def _row(table: Table, sql: str) -> tuple[Any, ...]:
    return fetch(table.con, sql, "the source")[0]
