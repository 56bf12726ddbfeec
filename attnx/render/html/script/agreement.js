"use strict";
// How far each method ranks the words of this text as a reference does.
attnx.sections.push((() => {
  const { byId, choice } = attnx.elements;
  let chosen = null;

  return {
    draw(state) {
      const { references, layers } = state.result;
      const names = Object.keys(references);
      byId("agreement").hidden = names.length === 0;
      if (!names.length) return;
      if (!names.includes(chosen)) [chosen] = names;
      const rows = Object.entries(references[chosen].agreement).map(([method, values]) => [method, values.map((mean) => ({ mean }))]);
      byId("agreement-lead").textContent =
        "Spearman's rank correlation of each method with what was measured on the model, over the words' positions: 1 is the same order, 0 none, −1 the reverse.";
      byId("agreement-body").replaceChildren(
        choice("Reference", names, chosen, (name) => { chosen = name; attnx.change({}); }),
        attnx.agreementTable(layers, Object.fromEntries(rows), (method, layer) => method === state.method && layer === state.layer),
      );
    },
  };
})());
