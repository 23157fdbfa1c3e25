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
