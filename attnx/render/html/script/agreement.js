"use strict";
// Rank correlation of each method with a reference at each layer, as a table with bars.
attnx.sections.push((() => {
  const { byId, make, choice } = attnx.elements;
  let chosen = null;

  const cell = (value, on) => {
    if (value === null) return make("td", { class: on ? "on" : "", text: "–", title: "undefined: constant scores" });
    const fill = make("span", { class: value < 0 ? "fill below" : "fill" });
    fill.style.width = `${Math.abs(value) * 100}%`;
    return make("td", { class: on ? "on" : "" }, make("span", { class: "number", text: value.toFixed(2) }), make("span", { class: "track" }, fill));
  };

  return {
    draw(state) {
      const { result } = state;
      const names = Object.keys(result.references);
      byId("agreement").hidden = names.length === 0;
      if (!names.length) return;
      if (!names.includes(chosen)) [chosen] = names;
      const { agreement } = result.references[chosen];
      byId("agreement-lead").textContent =
        "Spearman's rank correlation over the words' positions: 1 is the same order, 0 none, −1 the reverse.";
      const rows = Object.entries(agreement).map(([method, values]) => make(
        "tr", {}, make("th", { scope: "row", text: method }),
        ...values.map((value, layer) => cell(value, layer === state.layer && method === state.method))));
      const heading = make("tr", {}, make("th", { text: "layer" }), ...result.layers.map((one) => make("th", { scope: "col", text: one })));
      byId("agreement-body").replaceChildren(
        choice("Reference", names, chosen, (name) => { chosen = name; attnx.change({}); }),
        make("div", { class: "scroll" }, make("table", { class: "agreement" }, make("thead", {}, heading), make("tbody", {}, ...rows))));
    },
  };
})());
