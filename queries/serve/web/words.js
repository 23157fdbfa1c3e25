// Texts with parts filled in, and numbers for people.

// t("{n} rows", {n: 3})
export const t = (text, parts = {}) => text.replace(/\{(\w+)\}/g, (whole, name) => (name in parts ? parts[name] : whole));

// What a row of the release is called, in English.
export const unit = { one: "row", many: "rows" };

export const number = (x) => x.toLocaleString("en-GB");
