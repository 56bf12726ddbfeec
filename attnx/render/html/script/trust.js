"use strict";
// How far to trust what is shown: measured numbers for the chosen method and layer, and one sentence from them.
attnx.sections.push((() => {
  const { make, byId, meter } = attnx.elements;
  const { row, tied, sum, percent, signed, isReference } = attnx.numbers;
  const [HALF, FEW] = [0.5, 10];

  const agreements = ({ result, method, layer }) =>
    result.agreement
      .filter(({ between }) => between.includes(method))
      .map(({ between, layers }) => ({ other: between.find((one) => one !== method), value: layers[layer] }));

  // The first of these that holds is the one to read.
  const verdict = (state, facts) => {
    const { method, result, layer } = state;
    if (isReference(state)) return ["open", "Measured on the model itself: what the others are held against."];
    if (method === "raw" && result.layers[layer] > 1) {
      return ["care", "Raw attention above layer 1 points at mixtures of words, not at words. Read rollout or flow."];
    }
    if (method === "flow" && facts.saturated >= HALF) {
      const share = percent(facts.saturated);
      return ["care", `${share} of the inputs get all the flow that can reach them. Read rollout, or a lower layer.`];
    }
    if (facts.tied >= HALF) return ["care", `${percent(facts.tied)} of the positions tie: their order means nothing.`];
    const checked = facts.references.filter((one) => one.value !== null);
    if (checked.length) {
      const worst = checked.reduce((low, one) => (one.value < low.value ? one : low));
      const found = `${worst.other} ${signed(worst.value)}, ${facts.content} positions`;
      const few = facts.content < FEW ? " With so few, this says little." : "";
      return worst.value >= HALF
        ? ["fair", `It ranks positions much as measurements on the model do (${found}).${few}`]
        : ["care", `It does not rank positions as measurements on the model do (${found}).${few}`];
    }
    if (facts.special >= HALF) return ["care", `Special tokens hold ${percent(facts.special)}: little of it is about the rest.`];
    return ["open", "Nothing here speaks against it, and nothing was checked against the model. Add references to know more."];
  };

  return {
    draw(state) {
      const { result } = state;
      const scores = row(state);
      const whole = sum(scores);
      const own = state.rows === null && state.head === null;
      const facts = {
        tied: tied(scores) / scores.length,
        special: whole > 0 ? sum([...scores].filter((_, place) => result.positions[place].special)) / whole : 0,
        saturated: own && state.method === "flow" && result.saturation ? result.saturation[state.layer] : 0,
        references: own ? references(state) : [],
        content: result.positions.filter(({ special }) => !special).length,
      };
      const [level, sentence] = verdict(state, facts);
      const between = own ? agreements(state) : [];
      byId("trust-body").replaceChildren(
        make("p", { class: `verdict ${level}`, text: sentence }),
        ...group("Agrees with measurements on the model", facts.references.map(({ other, value }) => correlation(other, value))),
        ...group("Agrees with other methods", between.map(({ other, value }) => correlation(other, value))),
        ...group("Limits", [
          meter("special tokens hold", facts.special, percent(facts.special)),
          meter("positions that tie", facts.tied, percent(facts.tied)),
          ...(state.method === "flow" && own && result.saturation
            ? [meter("inputs saturated", facts.saturated, percent(facts.saturated))] : []),
          ...(result.sink && !isReference(state)
            ? [meter("attention on the first token", result.sink[state.layer], percent(result.sink[state.layer]))] : []),
        ]),
      );
    },
  };

  function references({ result, method, layer }) {
    const rows = Object.entries(result.references).filter(([, { agreement }]) => method in agreement);
    return rows.map(([other, { agreement }]) => ({ other, value: agreement[method][layer] }));
  }

  function correlation(label, value) {
    return value === null ? meter(label, 0, "undefined") : meter(label, value, signed(value));
  }

  function group(title, meters) {
    return meters.length ? [make("h3", { text: title }), ...meters] : [];
  }
})());
