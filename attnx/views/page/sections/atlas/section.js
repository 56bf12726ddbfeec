"use strict";
// The heads of a model over many texts: what each carries, and how far it agrees with a reference.
attnx.sections.push((() => {
  const { byId, choice, make, refill } = attnx.elements;
  let by = null;

  const whole = (atlas) => {
    const names = Object.keys(atlas.grids);
    by ??= names[0];
    const scores = atlas.grids[by];
    const top = Math.max(0, ...scores.flat().map((item) => Math.abs(item ?? 0)));
    byId("atlas-lead").textContent = atlas.references.includes(by)
      ? `How far ${atlas.method} of each head ranks positions as ${by} does (${atlas.measure}): mean of ${atlas.count} ` +
        `texts, at most ±${top.toFixed(2)}; blue is below zero.`
      : `Attention from the explained position to other words: mean of ${atlas.count} texts, 0 to ${top.toFixed(3)}.`;
    const tell = (layer, head) => {
      const score = scores[layer][head];
      byId("atlas-readout").replaceChildren(
        make("strong", { text: `layer ${atlas.layers[layer]}, head ${head}` }), ` ${score === null ? "undefined" : score.toFixed(4)}`);
    };
    refill(byId("atlas-controls"), choice("Grid", names, by, (name) => { by = name; whole(atlas); }));
    byId("atlas-body").replaceChildren(attnx.headGrid(atlas.layers, scores, { choose: tell }));
    byId("atlas-readout").textContent = "Hover or click a head for its number.";
  };

  return { name: "atlas", whole };
})());
