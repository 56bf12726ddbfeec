"use strict";
// What is chosen: a result, a method, a layer, words or tokens, and whose row. A change draws every section once.
attnx.state = { result: null, index: 0, method: "", layer: 0, view: "words", rows: null, head: null };

attnx.sections = [];

attnx.change = (() => {
  let waiting = false;

  const draw = () => {
    waiting = false;
    if (!attnx.state.result) return;
    for (const section of attnx.sections) section.draw(attnx.state);
  };

  return (changes) => {
    Object.assign(attnx.state, changes);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(draw);
  };
})();

attnx.show = (results, index) => {
  const result = results[index];
  attnx.numbers.unpack(result);
  const { state } = attnx;
  const known = [result.relevance, result.references].some((names) => Object.hasOwn(names, state.method));
  attnx.change({
    result,
    index,
    method: known ? state.method : result.method,
    layer: result.layers.length - 1,
    rows: null,
    head: null,
  });
};

// Explain another row, where the page has it; the answer's own position brings the exact row back.
attnx.explainRow = (places) => {
  const { state } = attnx;
  if (!state.result.maps) return;
  const own = places.length === 1 && places[0] === state.result.position;
  const method = attnx.numbers.isReference(state) ? state.result.method : state.method;
  attnx.change({ rows: own ? null : places, head: null, method });
};
