"use strict";
// The page's data, and what is selected: a result, a method, a layer, words or tokens, and the explained row.
attnx.data = JSON.parse(document.getElementById("data").textContent);
attnx.state = { result: null, index: 0, method: "", layer: 0, view: attnx.data.text?.view, rows: null, head: null };

// The data of a section for each result becomes a part of that result.
for (const [name, { results }] of Object.entries(attnx.data)) {
  if (results) results.forEach((entry, index) => { attnx.data.results[index][name] = entry; });
}

// A section is { name, whole(data) } of all results together, or { name, draw(state), applies(state)? } of the chosen one.
attnx.sections = [];

attnx.drawWhole = () => {
  for (const { name, whole } of attnx.sections) {
    if (!whole) continue;
    document.getElementById(name).hidden = false;
    whole(attnx.data[name]);
  }
};

attnx.drawChosen = () => {
  const { state } = attnx;
  if (!state.result) return;
  for (const { name, draw, applies } of attnx.sections) {
    if (!draw) continue;
    const shown = !applies || applies(state);
    document.getElementById(name).hidden = !shown;
    if (shown) draw(state);
  }
};

// Several changes at a time draw the sections once.
attnx.change = (() => {
  let waiting = false;

  return (changes) => {
    Object.assign(attnx.state, changes);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      attnx.drawChosen();
    });
  };
})();

attnx.show = (index) => {
  const result = attnx.data.results[index];
  attnx.numbers.unpack(result);
  const { state } = attnx;
  const known = [result.relevance, result.references].some((names) => Object.hasOwn(names, state.method));
  attnx.change({
    result,
    index,
    method: known ? state.method : result.first,
    layer: result.layers.length - 1,
    rows: null,
    head: null,
  });
};

// Explain another row, where the page has it; the explained position restores the exact row.
attnx.explainRow = (positions) => {
  const { state } = attnx;
  if (!state.result.maps) return;
  const isDefault = positions.length === 1 && positions[0] === state.result.position;
  const method = attnx.numbers.isReference(state) ? state.result.method : state.method;
  attnx.change({ rows: isDefault ? null : positions, head: null, method });
};
