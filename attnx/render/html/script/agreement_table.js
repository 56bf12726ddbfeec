"use strict";
// A table of correlations with bars: methods down, layers across; an interval is a line over its bar.
attnx.agreementTable = (() => {
  const { make } = attnx.elements;
  const place = (value) => Math.max(0, Math.min(1, Math.abs(value))) * 100;

  const cell = ({ mean, low = null, high = null }, on) => {
    const chosen = on ? "on" : null;
    if (mean === null) return make("td", { class: chosen, text: "–", title: "undefined: scores that are all the same" });
    const fill = make("span", { class: mean < 0 ? "fill below" : "fill" });
    fill.style.width = `${place(mean)}%`;
    const track = make("span", { class: "track" }, fill);
    if (low !== null && high > low) {
      const [near, far] = low < 0 && high > 0 ? [0, Math.max(-low, high)] : [Math.min(Math.abs(low), Math.abs(high)), Math.max(Math.abs(low), Math.abs(high))];
      const range = make("span", { class: "range" });
      range.style.insetInlineStart = `${place(near)}%`;
      range.style.width = `${place(far) - place(near)}%`;
      track.append(range);
    }
    const title = low === null ? null : `95 % interval ${low.toFixed(2)} to ${high.toFixed(2)}`;
    return make("td", { class: chosen, title }, make("span", { class: "number", text: mean.toFixed(2).replace("-", "−") }), track);
  };

  // `rows`: method → cells; `on(method, layer index)`: whether it is the one shown in the page.
  return (layers, rows, on = () => false) => {
    const heading = make("tr", {}, make("th", { text: "layer" }), ...layers.map((one) => make("th", { scope: "col", text: one })));
    const body = Object.entries(rows).map(([method, cells]) => make(
      "tr", {}, make("th", { scope: "row", text: method }), ...cells.map((one, layer) => cell(one, on(method, layer)))));
    return make("div", { class: "scroll" }, make(
      "table", { class: "agreement" }, make("thead", {}, heading), make("tbody", {}, ...body)));
  };
})();
