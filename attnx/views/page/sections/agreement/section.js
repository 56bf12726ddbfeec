"use strict";
// How far each method ranks the words of this text as a reference does.
attnx.sections.push((() => {
  const { byId, choice, refill } = attnx.elements;
  let chosen = null;

  return {
    name: "agreement",
    applies: ({ result }) => Object.keys(result.agreement).length > 0,
    draw(state) {
      const { agreement, layers } = state.result;
      const names = Object.keys(agreement);
      if (!names.includes(chosen)) [chosen] = names;
      const found = Object.entries(agreement[chosen]);
      const rows = Object.fromEntries(found.map(([method, values]) => [method, values.map((mean) => ({ mean }))]));
      const shown = (method, layer) => method === state.method && layer === state.layer;
      byId("agreement-lead").textContent =
        "Spearman's rank correlation of each method with what was measured on the model, special tokens left out; signed where both have a sign, else by size: " +
        "1 is the same order, 0 none, −1 the reverse.";
      refill(
        byId("agreement-body"),
        choice("Reference", names, chosen, (name) => { chosen = name; attnx.change({}); }),
        attnx.agreementTable(layers, rows, shown),
      );
      attnx.agreementTable.reveal(byId("agreement-body"), state.layer);
    },
  };
})());
