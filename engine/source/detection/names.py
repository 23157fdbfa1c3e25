"""Names that people give to columns of identifiers, in ten languages.

Takes the name of a column; says how surely it reads like the name of an identifier, an address, a person or a device.
A hint only: columns are judged by what they hold (`suspects`), and a telling name makes less evidence enough.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

_LAST = frozenset(
    (
        "id ids uid uuid guid pid key nr no num number numero nummer numer numeris nro kennung kennziffer "
        "kenn hash token ref matricule matricola matrikel identifier identifiant identificador identificativo "
        "identifikator tunnus case run user mobile mobil handy device license licence ip plate mac vin calle "
        "rue street strasse mail tel phone fax "
    ).split()
)
"""Say so as the last word, or the only one."""
_ANYWHERE = frozenset(
    (
        "svnr sozialversicherungsnummer ahv ssn mrn nhs niss inss nir nino nif nie dni rut cpf curp rfc cnp "
        "pesel egn jmbg cpr personnummer fodselsnummer hetu henkilotunnus bsn burgerservicenummer rodne "
        "cedula iban bic konto accountno email telefon telephone telefono passport passeport pasaporte "
        "reisepass ausweis login username caseid recordid dossier akte aktenzeichen az pseudonym imei imsi "
        "kennzeichen surname lastname firstname fullname nachname vorname familienname nom prenom apellido "
        "apellidos cognome achternaam voornaam naam efternamn fornamn efternavn sukunimi etunimi nazwisko "
        "imie prijmeni address adresse anschrift direccion indirizzo adres adress osoite cookie "
    ).split()
)
"""Say so wherever they stand."""
_SOMEBODY = frozenset(
    (
        "patient patienten pat person pers people case fall kunde kunden client cliente customer user member mitglied "
        "versicherter versicherten student pupil child employee mitarbeiter subject proband participant respondent "
        "household haushalt hh family familie record akte dossier visit stay aufnahme insurance versicherung policy "
        "police social tax steuer national ausweis passport reisepass paciente pacjent patienta assure compte "
        "identity citizen burger resident nurse doctor arzt medico"
    ).split()
)
"""Beside a word for a number, they say whose it is."""
_BARE = frozenset("id ids uid uuid guid pid identifier identifiant identificador pseudonym".split())
"""Say so by themselves."""
_ENDINGS = re.compile(
    r"((sicherungs|sicherten|patienten|personal|kunden|mitglieds|ausweis|pass|fall|steuer|konto|matrikel)"
    r"(nummer|nr|number|kennung|kennziffer)|(case|person|patient|pers|pat|user|client|customer|member|resp|respondent"
    r"|sub|subj|subject|household|hh|emp|employee|record|rec|sample|study|student|child|visit|stay|fall|kunden?)id)$"
)
"""Say so at the end of a compound word."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


Strength = Literal["none", "weak", "strong"]


def reads_like_an_identifier(name: str) -> Strength:
    """How surely people would call an identifier so.

    Returns: "strong": of somebody, or of something that somebody has; "weak": a number or key of anything;
    "none".
    """
    words = words_of(name)
    if not words:
        return "none"
    is_last = words[-1] in _LAST
    is_number = is_last or words[0] == "id"
    is_somebodys = is_number and not _SOMEBODY.isdisjoint(words)
    is_alone = len(words) == 1 and words[0] in _BARE
    if is_somebodys or is_alone or not _ANYWHERE.isdisjoint(words) or _ENDINGS.search(words[-1]):
        return "strong"
    return "weak" if is_number else "none"


def words_of(name: str) -> list[str]:
    """The words of a name: folded, without accents, split at signs, digits and capitals."""
    bare = unicodedata.normalize("NFKD", name.replace("ß", "ss").replace("ø", "o"))
    plain = "".join(sign for sign in bare if not unicodedata.combining(sign))
    plain = re.sub(r"(?i)\be[-_. ]mail", "email", plain)
    return re.findall(r"[^\W\d_]+", _CAMEL.sub(" ", plain).casefold())
