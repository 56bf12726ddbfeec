"use strict";
// Layer × head as a grid of buttons, the last layer on top; below zero is blue.
attnx.headGrid = (() => {
  const { make } = attnx.elements;

  const button = (score, top, label, pressed, choose) => {
    const name = `${label}: ${score === null ? "undefined" : score.toFixed(4)}`;
    const made = make("button", {
      type: "button", class: score < 0 ? "head opposes" : "head", "aria-label": name, title: name,
      "aria-pressed": String(pressed), onclick: choose,
    });
    made.style.setProperty("--heat", `${top > 0 ? ((Math.abs(score ?? 0) / top) * 100).toFixed(1) : 0}%`);
    return make("td", {}, made);
  };

  // `pressed(layer, head)` and `choose(layer, head)` take indices.
  return (layers, scores, { pressed = () => false, choose = () => {} } = {}) => {
    const top = Math.max(0, ...scores.flat().map((item) => Math.abs(item ?? 0)));
    const numbers = scores[0].map((_, head) => make("th", { scope: "col", text: head }));
    const rows = layers.map((layer, index) => make(
      "tr", {}, make("th", { scope: "row", text: layer }),
      ...scores[index].map((score, head) =>
        button(score, top, `layer ${layer}, head ${head}`, pressed(index, head), () => choose(index, head)))));
    const heading = make("tr", {}, make("th", { text: "layer" }), ...numbers);
    return make("div", { class: "scroll" }, make(
      "table", { class: "heads" }, make("thead", {}, heading), make("tbody", {}, ...rows.reverse())));
  };
})();
