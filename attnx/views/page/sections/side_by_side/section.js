"use strict";
// Explanations side by side: the predictions, and a column for each row of words, all on one scale.
attnx.sections.push((() => {
  const { byId, make, choice, named, meter, visible } = attnx.elements;
  const BEST = 5;
  let name = null;

  const score = (value) => (value === null ? "–" : value.toFixed(4));
  const change = (row) => (row.some((item) => item === null) ? null : row.at(-1) - row[0]);
  const signed = (value) => (value === null ? "–" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(4)}`);
  const shown = (word) => (word === "" ? "–" : visible(word));
  const differs = (words) => words.some((word) => word !== words[0]);
  const label = (words) => (differs(words) ? words.map(shown).join(" → ") : shown(words[0]));

  const predictions = ({ titles, predictions: lines }) => {
    const head = make("tr", {}, make("th", {}), ...titles.map((title) => make("th", { scope: "col", text: title })));
    const rows = lines.map(([first, ...cells], index) => make(
      "tr", {}, make("th", { scope: "row", text: first }),
      ...cells.map((cell) => make("td", { class: index === 0 ? "predicted" : null, text: cell }))));
    byId("side-predictions").replaceChildren(...(lines.length ? [head, ...rows] : []));
  };

  const tell = (data, row) => {
    const scores = data.scores[name][row];
    byId("side-readout").replaceChildren(
      make("strong", { text: label(data.words[row]) }), ` ${scores.map(score).join(" → ")} · ${signed(change(scores))}`);
  };

  const rest = (data) => {
    byId("side-readout").textContent = `Above: ${data.titles[0]}. Below: ${data.titles.slice(1).join(", then ")}.`;
  };

  const half = (word, value, most) => {
    if (value === null) return make("span", { class: "absent", text: shown(word) });
    const share = most > 0 ? Math.abs(value) / most : 0;
    const kind = [value < 0 ? "opposes" : "", share > 0.6 ? "strong" : ""].join(" ").trim();
    const made = make("span", { class: kind || null, text: shown(word), "data-score": value });
    made.style.setProperty("--heat", `${(share * 100).toFixed(1)}%`);
    return made;
  };

  const words = (data) => {
    const rows = data.scores[name];
    const most = Math.max(0, ...rows.flat().map((item) => Math.abs(item ?? 0)));
    const twin = (pair, row) => make(
      "button",
      {
        type: "button", class: differs(pair) ? "twin differs" : "twin",
        "aria-label": `${label(pair)}: ${rows[row].map(score).join(" to ")}`,
        onmouseenter: () => tell(data, row), onmouseleave: () => rest(data),
        onfocus: () => tell(data, row), onblur: () => rest(data), onclick: () => tell(data, row),
      },
      ...pair.map((word, index) => half(word, rows[row][index], most)));
    const twins = data.words.map(twin);
    if (data.second !== null) twins.splice(data.second, 0, make("span", { class: "second-text", role: "separator" }));
    byId("side-words").replaceChildren(...twins);
  };

  const best = (data) => {
    const rows = data.scores[name];
    const changes = rows.map((row) => change(row));
    const order = [...changes.keys()].filter((row) => changes[row] !== null);
    order.sort((a, b) => Math.abs(changes[b]) - Math.abs(changes[a]));
    const most = Math.abs(changes[order[0]] ?? 0);
    byId("side-best").replaceChildren(...order.slice(0, BEST).map((row) =>
      meter(label(data.words[row]), most > 0 ? changes[row] / most : 0, signed(changes[row]))));
  };

  const draw = (data) => {
    predictions(data);
    byId("side-lead").textContent = data.headings[name];
    words(data);
    best(data);
    rest(data);
    byId("side-notes").replaceChildren(...data.cautions[name].map((note) => make("p", { class: "note", text: note })));
  };

  return {
    name: "side_by_side",
    whole(data) {
      const names = Object.keys(data.scores);
      name = name ?? names[0];
      const pick = (chosen) => {
        name = chosen;
        for (const button of byId("side-controls").querySelectorAll("button")) {
          const on = button.dataset.name === name;
          button.setAttribute("aria-checked", String(on));
          button.tabIndex = on ? 0 : -1;
        }
        draw(data);
      };
      byId("side-controls").replaceChildren(named("By", choice("Side by side by", names, name, pick)));
      draw(data);
    },
  };
})());
