"use strict";
// Rows to search, filter and sort. Whatever was written in a text goes in as text, and never as markup.
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const AT_ONCE = 50;
  let shown = AT_ONCE;

  const element = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const options = (id, pairs) => pairs.forEach(([value, text]) => {
    const made = element("option", text);
    made.value = value;
    at(id).append(made);
  });

  const labels = [...new Set(page.rows.map((one) => one.label).filter((one) => one !== undefined && one !== null))].sort();
  options("label", [["", "all"], ...labels.map((one) => [one, one])]);
  options("method", page.methods.map((one) => [one.name, one.name]));
  options("sort", [["row", "place in the data"], ["probability", "probability"], ...page.sorts.map((one) => [one, one])]);

  const written = (row) => (row.words ? row.words.join(" ") : `${row.text} ${row.error}`);
  const searched = page.rows.map((row) => `${row.id} ${row.label || ""} ${row.gold || ""} ${written(row)} ${(row.notes || []).join(" ")}`.toLowerCase());

  const fits = (row, number) => {
    const asked = at("search").value.trim().toLowerCase();
    const right = at("right").value;
    if (asked && !searched[number].includes(asked)) return false;
    if (at("label").value && row.label !== at("label").value) return false;
    if (right === "error") return row.error !== undefined;
    if (right === "unknown") return row.error === undefined && row.right === null;
    return !right || String(row.right) === right;
  };

  const number = (row, name) => {
    const value = name === "row" || name === "probability" ? row[name] : (row.numbers || {})[name];
    return value === undefined || value === null ? null : value;
  };

  const colours = () => {
    const named = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    return { for: named("hot"), against: named("lines") };
  };

  const words = (row, method) => {
    const scores = row.scores[method];
    const made = element("p", undefined, "words");
    if (!scores) {
      made.append(element("span", `${row.words.join(" ")} (without ${method}: see the notes)`));
      return made;
    }
    const most = Math.max(...scores.map(Math.abs), Number.MIN_VALUE);
    const { for: hot, against } = colours();
    row.words.forEach((word, place) => {
      const one = element("span", word);
      const share = Math.abs(scores[place]) / most;
      one.style.backgroundColor = `color-mix(in srgb, ${scores[place] < 0 ? against : hot} ${Math.round(share * 85)}%, transparent)`;
      one.title = String(scores[place]);
      made.append(one, " ");
    });
    return made;
  };

  const item = (row, method) => {
    const made = element("li");
    const facts = element("div", undefined, "facts");
    facts.append(element("span", `row ${row.row}${row.id === String(row.row) ? "" : ` · ${row.id}`}`));
    if (row.label) facts.append(element("span", `${row.label}${row.probability === null ? "" : ` ${row.probability.toFixed(3)}`}`));
    if (row.target) facts.append(element("span", `target ${row.target}`));
    if (row.gold !== null) {
      facts.append(element("span", `gold ${row.gold}${row.right === false ? ": wrong" : ""}`, row.right === false ? "wrong" : ""));
    }
    Object.entries(row.numbers || {}).forEach(([name, value]) => facts.append(element("span", `${name} ${value}`)));
    made.append(facts);
    if (row.error !== undefined) made.append(element("p", row.text), element("p", `failed: ${row.error}`, "wrong"));
    else if (page.images) made.append(element("p", row.id));
    else made.append(words(row, method));
    (row.notes || []).forEach((note) => made.append(element("div", note, "facts")));
    return made;
  };

  const show = () => {
    const method = at("method").value;
    const by = at("sort").value;
    const way = Number(at("order").value);
    const found = page.rows.filter(fits).sort((one, other) => {
      const [a, b] = [number(one, by), number(other, by)];
      if (a === null || b === null) return (a === null) - (b === null);
      return way * (a - b) || one.row - other.row;
    });
    at("count").textContent = `${found.length.toLocaleString("en")} of ${page.rows.length.toLocaleString("en")} rows in this page`;
    at("list").replaceChildren(...found.slice(0, shown).map((row) => item(row, method)));
    at("more").hidden = found.length <= shown;
  };

  at("choose").addEventListener("input", () => { shown = AT_ONCE; show(); });
  at("choose").addEventListener("submit", (event) => event.preventDefault());
  at("more").addEventListener("click", () => { shown += AT_ONCE; show(); });
  at("rows").hidden = false;
  show();
})();
