"use strict";
// Layer × head: how much each head gives to one word. A click shows that head in the whole page.
attnx.sections.push((() => {
  const { byId, make, refill, visible } = attnx.elements;
  const { byWord, headRow, most } = attnx.numbers;
  let word = null;
  let shown = null;

  const strongest = ({ result }) => {
    const sums = byWord(result, result.relevance[result.method].at(-1));
    return sums.indexOf(most(sums));
  };

  const cells = (state) => {
    const { result, method } = state;
    return result.layers.map((_, layer) => Array.from({ length: result.heads.count }, (_, head) =>
      byWord(result, headRow(result, method, layer, head))[word]));
  };

  return {
    name: "heads",
    applies: ({ result, method }) => Boolean(result.heads?.relevance[method]) && result.words.length > 0,
    draw(state) {
      const { result } = state;
      if (shown !== result) word = strongest(state);
      shown = result;
      const scores = cells(state);
      const top = Math.max(...scores.map((item) => most(item)));
      const select = make("select", { onchange: (event) => { word = Number(event.target.value); attnx.change({}); } });
      result.words.forEach(({ text }, index) => select.append(make("option", { value: index, text: visible(text) })));
      select.value = word;
      refill(
        byId("heads-lead"),
        `What each head gives to `, make("label", {}, make("span", { class: "unseen", text: "Word" }), select),
        `, by ${state.method}: 0 to ${top.toFixed(3)}. Click a head to see the page through it, again to leave it.`,
      );
      const pressed = (layer, head) => state.head === head && state.layer === layer;
      const choose = (layer, head) => attnx.change(pressed(layer, head) ? { head: null } : { layer, head, rows: null });
      refill(byId("heads-body"), attnx.headGrid(result.layers, scores, { pressed, choose }));
    },
  };
})());
