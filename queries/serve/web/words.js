// Translations of the page's own texts, and number formats.

export const language = document.documentElement.lang || "en";
const LOCALES = { en: "en-GB" };
export const locale = LOCALES[language] ?? language;

// Translations by English text; the server has already translated the HTML.
const texts = language === "en" ? {} : await fetch(`words.${language}.json`).then((got) => (got.ok ? got.json() : {}), () => ({}));

// t("{n} rows", {n: 3})
export const t = (text, parts = {}) => (texts[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => (name in parts ? parts[name] : whole));

// What a row of the release is called; the English word shows whether two releases count the same unit.
export const unit = { one: t("row"), many: t("rows"), english: "rows" };

// If a release names its unit in English only, our own translation is used where there is one ("rows").
export function unitWords(given) {
  const words = given[language] ?? given[language.split("-")[0]] ?? { one: t(given.en.one), many: t(given.en.many) };
  return { ...words, english: given.en.many };
}

export const number = (x) => x.toLocaleString(locale);

// Why a variable cannot be added: a reason from the server in the page's language.
export function reason(text) {
  const [why, without] = text.split("; possible without "), names = /^not released with (?!all of these$)(.+)$/.exec(why);
  const either = (labels) => labels.replaceAll(" or ", ` ${t("or")} `), first = names ? t("not released with {names}", { names: either(names[1]) }) : t(why);
  return first + (without ? t("; possible without {names}", { names: either(without) }) : "");
}

// "{low} to {high}", as the server labels bands; years have no thousands separators.
const end = (text) => (/^-?[\d,]+(\.\d+)?$/.test(text) ? Number(text.replaceAll(",", "")).toLocaleString(locale, { useGrouping: text.includes(","), maximumFractionDigits: 15 }) : text);
export const band = (text) => text.replace(/^(\S+) to (\S+)$/, (_, low, high) => t("{low} to {high}", { low: end(low), high: end(high) }));

// Sentences of the server on accuracy, and those of a table's card.
const sentence = (text) => ({ text, names: text.match(/\{\w+\}/g)?.map((name) => name.slice(1, -1)) ?? [], form: new RegExp(text.replace(/[.()]/g, "\\$&").replace(/\{\w+\}/g, "(.+?)")) });
const SENTENCES = [
  sentence("From table {table}; the interval holds the figure without noise in 95 of 100 releases."),
  sentence("From table {table}; MODELLED: the interval is that of a random sample that is as far off as the model was in tables of {n} columns before it met them; with more columns it may be off by more."),
  sentence("From table {table}; MODELLED: there is no interval, as it is modelled from columns alone, and no table shows how far the model is off."),
  sentence("Not released: too few {entities}, or none: we do not say which (95 of 100 such cells hold at most {n} {units})."),
  sentence("{share} of the {units} were imputed, which know less of how the columns are associated."),
  sentence("Percentages of groups, and of sums, are figures over their total; the interval holds every percentage that the intervals of both allow."),
  sentence("Totals count what is not released, too: the parts shown may add up to less."),
  sentence("{n} synthetic {units} in {m} distinct combinations of {table}."),
  sentence("Cells with fewer than {n} {entities} are never released; the threshold is noisy, mean {m}, sd {sd}."),
  sentence("Each released count includes noise of sd {sd} {units}, always the same for the same {entities}."),
  sentence("{n} combinations were released; about {share} of the {units} fall outside released combinations and were imputed without reference to the data."),
  sentence("Sums of {table} in groups were measured too, with noise. In them values below {low} or above {high} count as these ends, which are those of the ranges that a group shows: none of the rows shown lies beyond."),
  sentence("Locked to the noisy total: counts differ from theirs by at most {n}."),
  sentence("Locked to {table}: counts differ from theirs by at most {n}."),
  sentence("{n} raking cycles; the largest remaining difference is {share} of the {units}."),
  sentence("No raking was needed."),
  sentence("From all tables of this release together, an attacker who knows everything else about everybody guesses a 50:50 secret in the place of one column right for at most {most} of the most exposed, {few} of the most exposed 1 % and {all} of all (chance: 50%). Builds above {bound} are refused unless the risk is accepted."),
  sentence("The custodian accepted this risk: {reason}"),
  sentence("Vintage {vintage}, key {key}, profile {profile}, engine {engine}."),
];
const NUMBERS = ["n", "m", "sd", "share", "low", "high"];

// A sentence that was found, in the page's language.
function inOwn({ names, text }, found, label) {
  const own = (word) => (word === unit.english ? unit.many : t(word)), parts = Object.fromEntries(names.map((name, i) => [name, found[i + 1]]));
  if (parts.table) parts.table = parts.table.split(", ").map(label).join(", ");
  for (const name of ["entities", "units"]) if (parts[name]) parts[name] = own(parts[name]);
  for (const name of NUMBERS) if (parts[name]) parts[name] = parts[name].replace(/\d[\d,]*(?:\.(\d+))?/g, (x, cut = "") => Number(x.replaceAll(",", "")).toLocaleString(locale, { minimumFractionDigits: cut.length, maximumFractionDigits: cut.length }));
  return t(text, parts);
}

// A sentence of a card in the page's language; null if it has no translation.
export function onCard(said, label) {
  for (const one of SENTENCES) {
    const found = new RegExp(`^${one.form.source}$`).exec(said);
    if (found) return inOwn(one, found, label);
  }
  return null;
}

// A statement on accuracy in the page's language, with labels of columns; and what of it has no translation.
export function accuracy(said, label) {
  const out = [];
  let rest = said;
  for (const one of SENTENCES) {
    const found = one.form.exec(rest);
    if (!found) continue;
    out.push(inOwn(one, found, label));
    rest = rest.replace(found[0], "");
  }
  return [out.join(" "), rest.replace(/\s+/g, " ").trim()];
}
