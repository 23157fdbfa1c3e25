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

// Sentences of the server on accuracy.
const sentence = (text) => ({ text, names: text.match(/\{\w+\}/g)?.map((name) => name.slice(1, -1)) ?? [], form: new RegExp(text.replace(/[.()]/g, "\\$&").replace(/\{\w+\}/g, "(.+?)")) });
const SENTENCES = [
  sentence("From table {table}; the interval holds the figure without noise in 95 of 100 releases."),
  sentence("From table {table}; MODELLED: there is no interval, as it is modelled from locked tables, and replays of these are not drawn yet."),
  sentence("Not released: too few {entities}, or none: it is not told which (95 of 100 such cells hold at most {n} {units})."),
  sentence("{share} of the {units} were imputed, which know less of how the columns are associated."),
  sentence("Percentages of groups, and of sums, are figures over their total; the interval holds every percentage that the intervals of both allow."),
  sentence("Totals count what is not released, too: the parts shown may add up to less."),
];

// A statement on accuracy in the page's language, with labels of columns; and what of it has no translation.
export function accuracy(said, label) {
  const own = (word) => (word === unit.english ? unit.many : t(word)), out = [];
  let rest = said;
  for (const { form, names, text } of SENTENCES) {
    const found = form.exec(rest);
    if (!found) continue;
    const parts = Object.fromEntries(names.map((name, i) => [name, found[i + 1]]));
    if (parts.table) parts.table = parts.table.split(", ").map(label).join(", ");
    for (const name of ["entities", "units"]) if (parts[name]) parts[name] = own(parts[name]);
    out.push(t(text, parts));
    rest = rest.replace(found[0], "");
  }
  return [out.join(" "), rest.replace(/\s+/g, " ").trim()];
}
