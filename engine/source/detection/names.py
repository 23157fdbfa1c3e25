"""What names of columns say, in ten languages and several scripts, and the other rules of `rules.toml`.

Takes the name of a column; says how surely it reads like the name of an identifier, an address, a person or a device,
and whether it names a group, somebody in it, or when something was. A hint only: columns are judged by what they hold
(`identifiers`), and a telling name makes less evidence enough.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from importlib.resources import files
from typing import Any, Literal, cast

RULES: dict[str, Any] = tomllib.loads((files(__package__) / "rules.toml").read_text("utf-8"))
"""The words, spellings and patterns that detection goes by."""
WORDS = {about: frozenset(words.split()) for about, words in RULES["names"].items()}
_PATTERNS = {about: re.compile(pattern) for about, pattern in RULES["patterns"].items()}
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

Strength = Literal["none", "weak", "strong"]
Role = Literal["group", "member", "time", "none"]


def reads_like_an_identifier(name: str) -> Strength:
    """How surely people would call an identifier so.

    Returns: "strong": of somebody, or of something that somebody has; "weak": a number or key of anything;
    "none".
    """
    if _PATTERNS["scripts"].search(_folded(name)):
        return "strong"
    words = words_of(name)
    if not words:
        return "none"
    is_number = words[-1] in WORDS["last"] or words[0] == "id"
    is_somebodys = (is_number or words[0] in WORDS["first"]) and any(
        word in WORDS["somebody"] for word in words
    )
    is_alone = len(words) == 1 and words[0] in WORDS["bare"]
    is_plain = any(word in WORDS["anywhere"] for word in words)
    if is_somebodys or is_alone or is_plain or _PATTERNS["endings"].search(words[-1]):
        return "strong"
    return "weak" if is_number else "none"


def is_named_like_an_id(name: str) -> bool:
    """Whether a column that could name entities is called so."""
    return bool(_PATTERNS["id"].search(name.casefold()) or _PATTERNS["camel_id"].search(name))


def role_of(name: str) -> Role:
    """What the name of a column says: a household or site, somebody in it, or when something was."""
    folded = _folded(name)
    for role in ("member", "group"):
        if _PATTERNS[f"{role}_scripts"].search(folded):
            return role
    known = WORDS["groups"] | WORDS["members"]
    words = [word for word in words_of(name) if word not in WORDS["numbers"]]
    words = [word if word in known else _PATTERNS["number_endings"].sub("", word) for word in words]
    if all(word in known for word in words):
        return "group" if words and WORDS["members"].isdisjoint(words) else "member"
    if not WORDS["times"].isdisjoint(words):
        return "time"
    return "member" if reads_like_an_identifier(name) == "strong" else "none"


def asked_first(name: str) -> Literal["age", "sex", "place", "none"]:
    """What of that which people ask about first a column is called after."""
    words = words_of(name)
    for about, known in ("sex", "sexes"), ("place", "places"), ("age", "ages"):
        if not WORDS[known].isdisjoint(words):
            return cast(Literal["age", "sex", "place"], about)
    return "none"


def words_of(name: str) -> list[str]:
    """The words of a name: folded, without accents, split at signs, digits and capitals."""
    bare = unicodedata.normalize("NFKD", name.replace("ß", "ss").replace("ø", "o"))
    plain = "".join(sign for sign in bare if not unicodedata.combining(sign))
    plain = re.sub(r"(?i)\be[-_. ]mail", "email", plain)
    return re.findall(r"[^\W\d_]+", _CAMEL.sub(" ", plain).casefold())


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
