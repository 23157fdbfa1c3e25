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
        "identity citizen burger resident nurse doctor arzt medico adherent abonne salarie eleve etudiant paziente "
        "dipendente cartella historia socio empleado alumno usuario doente utente klant lid klient "
        "kund medlem pasient elev asiakas potilas pacjenta klienta kartoteki musteri hasta tc kimlik"
    ).split()
)
"""Beside a word for a number, they say whose it is."""
_BARE = frozenset("id ids uid uuid guid pid identifier identifiant identificador pseudonym".split())
"""Say so by themselves."""
_ENDINGS = re.compile(
    r"((sicherungs|sicherten|patienten|patient|pasient|personal|person|kunden|kund|kunde|klant|klient|client|medlems|mitglieds"
    r"|leden|lid|asiakas|potilas|ausweis|pass|fall|steuer|konto|matrikel|musteri|hasta)"
    r"(nummer|nr|no|num|number|numero|kennung|kennziffer)|(case|person|patient|pers|pat|user|client|customer|member|resp|respondent"
    r"|sub|subj|subject|household|hh|emp|employee|record|rec|sample|study|student|child|visit|stay|fall|kunden?)id)$"
)
"""Say so at the end of a compound word."""
_FIRST = frozenset("nr no num number numero nummer numer n".split())
"""Say so as the first word too, as in many languages the number comes before whose it is: numéro client."""
_SCRIPTS = re.compile(
    "患者(番号|编号|編號|号|id)|病人编号|病历号|病歷號|身份证|身分證|(客户|客戶|会员|會員|员工|員工|学生|住院|就诊)(编号|編號|号|號)"
    "|学号|工号|(顧客|会員|社員|職員|学籍|診察券|被保険者|個人)番号|マイナンバー"
    "|(환자|고객|회원|사원|등록|주민등록)번호|사번|학번"
    "|(номер|код|ид).*(пац|клиент|клієнт|покупат|абонент|сотрудн|студент|карт|полис|паспорт)|снилс|паспорт|табельн"
    "|(αριθμ|κωδικ).*(ασθεν|πελατ|πελάτ|μητρώ|μητρω|ταυτοτ|ταυτότ)|αμκα|αφμ"
    "|رقم.*(مريض|عميل|زبون|هوي|طالب|موظف)|מספר.*(מטופל|לקוח|זהות|עובד)|תעודת.זהות"
    "|(रोगी|मरीज|ग्राहक|आधार).*(संख्या|क्रमांक|नंबर)"
)
"""Numbers of patients, clients, members, staff and papers in other scripts."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


Strength = Literal["none", "weak", "strong"]


def reads_like_an_identifier(name: str) -> Strength:
    """How surely people would call an identifier so.

    Returns: "strong": of somebody, or of something that somebody has; "weak": a number or key of anything;
    "none".
    """
    if _SCRIPTS.search(unicodedata.normalize("NFC", name).casefold()):
        return "strong"
    words = words_of(name)
    if not words:
        return "none"
    is_last = words[-1] in _LAST
    is_number = is_last or words[0] == "id"
    is_somebodys = (is_number or words[0] in _FIRST) and not _SOMEBODY.isdisjoint(words)
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
