"use strict";
// The named parts of the text. Hover or focus shows the exact sum, and outlines the words above.
attnx.sections.push((() => {
  const { byId, meter, visible } = attnx.elements;
  const { row, rounding, rank, most, sum, isReference, isSigned, decimals } = attnx.numbers;
  const HINT = "Hover or tab for a sum and its words.";

  const scored = (score, top, state) => {
    const side = !isSigned(state) || score === 0 ? "" : score > 0 ? " supports" : " opposes";
    return `${score.toFixed(decimals(top, state)).replace("-", "−")}${side}`;
  };

  const rest = () => {
    attnx.text.outline([]);
    byId("spans-readout").textContent = HINT;
  };

  const tell = (parts, sums, index) => {
    const [name, positions] = parts[index];
    const { rank: nth, same, of } = rank(sums, index, rounding(attnx.state));
    const tied = same > 1 ? ` · ties with ${same - 1} other${same > 2 ? "s" : ""}` : "";
    attnx.text.outline(positions);
    byId("spans-readout").textContent = `${visible(name)} ${sums[index].toFixed(6)} · rank ${nth} of ${of}${tied}`;
  };

  return {
    name: "spans",
    applies: ({ result }) => result.spans.parts.length > 0,
    draw(state) {
      const { parts } = state.result.spans;
      const scores = row(state);
      const sums = parts.map(([, positions]) => sum(positions.map((position) => scores[position])));
      const top = most(sums.map(Math.abs));
      const where = isReference(state) ? "of the whole model" : `at layer ${state.result.layers[state.layer]}`;
      byId("spans-lead").textContent = `Each part with the sum over its tokens, by ${state.method} ${where}.`;
      byId("spans-rows").classList.toggle("sided", isSigned(state));
      byId("spans-rows").replaceChildren(...parts.map(([name], index) => {
        const line = meter(visible(name), top > 0 ? sums[index] / top : 0, scored(sums[index], top, state));
        line.tabIndex = 0;
        line.dataset.score = sums[index];
        for (const event of ["mouseenter", "focus"]) line.addEventListener(event, () => tell(parts, sums, index));
        for (const event of ["mouseleave", "blur"]) line.addEventListener(event, rest);
        return line;
      }));
      rest();
    },
  };
})());
