// The page's own words in the reader's language, texts with parts filled in, and numbers for people.

export const language = document.documentElement.lang || "en";
const LOCALES = { en: "en-GB" };
export const locale = LOCALES[language] ?? language;

// Words by what they are in English; those of the page itself the server has put in already.
const texts = language === "en" ? {} : await fetch(`words.${language}.json`).then((got) => (got.ok ? got.json() : {}), () => ({}));

// t("{n} rows", {n: 3})
export const t = (text, parts = {}) => (texts[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => (name in parts ? parts[name] : whole));

// What a row of the release is called; in English too, which tells whether two releases count the same.
export const unit = { one: t("row"), many: t("rows"), english: "rows" };

// Words that a release has only in English are ours where we have them ("rows").
export function unitWords(given) {
  const words = given[language] ?? given[language.split("-")[0]] ?? { one: t(given.en.one), many: t(given.en.many) };
  return { ...words, english: given.en.many };
}

export const number = (x) => x.toLocaleString(locale);

// "{low} to {high}", as the server writes it in bands.
export const band = (text) => text.replace(/^(\S+) to (\S+)$/, (_, low, high) => t("{low} to {high}", { low, high }));
