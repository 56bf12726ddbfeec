"use strict";
// A table of numbers with bars: methods down, layers across; an interval is a thin line over its bar.
attnx.agreementTable = (() => {
  const { make } = attnx.elements;
  const { signed } = attnx.numbers;

  // From 0 to 1, or from −1 where something in the table is below 0.
  const axisOf = (rows) => {
    const ends = Object.values(rows).flat().flatMap(({ mean, low }) => [mean ?? 0, low ?? 0]);
    const least = Math.min(...ends) < 0 ? -1 : 0;
    return (value) => ((Math.max(least, Math.min(1, value)) - least) / (1 - least)) * 100;
  };

  const span = (name, axis, from, to) => {
    const made = make("span", { class: name });
    made.style.insetInlineStart = `${axis(Math.min(from, to))}%`;
    made.style.width = `${axis(Math.max(from, to)) - axis(Math.min(from, to))}%`;
    return made;
  };

  const UNDEFINED = "undefined: scores that are all the same";

  const cell = ({ mean, low = null, high = null, mark = "", why = UNDEFINED }, axis, on) => {
    const chosen = on ? "on" : null;
    if (mean === null) return make("td", { class: chosen, text: "–", title: why });
    const track = make("span", { class: "track" }, span(mean < 0 ? "fill below" : "fill", axis, 0, mean));
    if (axis(0) > 0) track.append(span("zero", axis, 0, 0));
    if (low !== null && high > low) track.append(span("range", axis, low, high));
    const title = low === null ? null : `95 % interval ${signed(low)} to ${signed(high)}`;
    return make("td", { class: chosen, title }, make("span", { class: "number", text: `${signed(mean)} ${mark}`.trim() }), track);
  };

  // `rows`: method → cells; `on(method, layer index)`: whether it is the one shown in the page.
  const table = (layers, rows, on = () => false, corner = "layer") => {
    const axis = axisOf(rows);
    const numbers = layers.map((item) => make("th", { scope: "col", text: item }));
    const heading = make("tr", {}, make("th", { text: corner }), ...numbers);
    const body = Object.entries(rows).map(([method, cells]) => make(
      "tr", {}, make("th", { scope: "row", text: method }), ...cells.map((item, layer) => cell(item, axis, on(method, layer)))));
    return make("div", { class: "scroll" }, make(
      "table", { class: "agreement" }, make("thead", {}, heading), make("tbody", {}, ...body)));
  };

  // Bring the column of a layer into sight, in a table that is in the page and wider than its card.
  table.reveal = (parent, layer) => {
    const scroll = parent.querySelector(".scroll");
    const column = scroll.querySelectorAll("thead th")[layer + 1];
    scroll.scrollLeft += Math.max(0, column.getBoundingClientRect().right - scroll.getBoundingClientRect().right);
  };

  return table;
})();
