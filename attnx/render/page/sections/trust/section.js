"use strict";
// How far to trust what is shown: measured numbers for the chosen method and layer, and one sentence from them.
attnx.sections.push((() => {
  const { make, byId, meter } = attnx.elements;
  const { row, rounding, tied, sum, percent, signed, isReference } = attnx.numbers;
  const [HALF, FEW] = [0.5, 10];

  const agreements = ({ result, method, layer }) =>
    result.trust.between
      .filter(({ between }) => between.includes(method))
      .map(({ between, layers }) => ({ other: between.find((one) => one !== method), value: layers[layer] }));

  // The first of these that holds is the one to read.
  const verdict = (state, facts) => {
    const { method, result, layer } = state;
    const through = Object.keys(result.relevance).filter((one) => !result.local.includes(one));
    if (isReference(state)) {
      const account = result.trust.accounts[method];
      const sums = account ? ` In sum: ${account}.` : "";
      const named = result.trust.named[method];
      const how = named === method ? "" : ` It is ${named}.`;
      return ["open", `Measured on the model itself: what the others are held against.${how}${sums}`];
    }
    if (result.local.includes(method) && result.layers[layer] > 1) {
      const instead = through.length ? ` Read ${through.join(" or ")}.` : "";
      const named = `${method[0].toUpperCase()}${method.slice(1)} attention`;
      return ["care", `${named} above layer 1 points at mixtures of words, not at words.${instead}`];
    }
    if (facts.saturated >= HALF) {
      const others = through.filter((one) => !result.trust.diagnostics[one]?.saturation);
      const instead = [...others, "a lower layer"].join(", or ");
      return ["care", `${percent(facts.saturated)} of the inputs get all the flow that can reach them. Read ${instead}.`];
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
    name: "trust",
    draw(state) {
      const { result } = state;
      const { diagnostics, sink } = result.trust;
      const scores = row(state);
      const whole = sum(scores);
      const own = state.rows === null && state.head === null;
      const saturation = own ? diagnostics[state.method]?.saturation : null;
      const facts = {
        tied: tied(scores, rounding(state)) / scores.length,
        special: whole > 0 ? sum([...scores].filter((_, place) => result.positions[place].special)) / whole : 0,
        saturated: saturation ? saturation[state.layer] : 0,
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
          ...(scores.some((one) => one < 0) ? [] : [meter("special tokens hold", facts.special, percent(facts.special))]),
          meter("positions that tie", facts.tied, percent(facts.tied)),
          ...(saturation ? [meter("inputs saturated", facts.saturated, percent(facts.saturated))] : []),
          ...(sink && !isReference(state)
            ? [meter("attention on the first token", sink[state.layer], percent(sink[state.layer]))] : []),
        ]),
      );
    },
  };

  function references({ result, method, layer }) {
    const found = Object.entries(result.agreement ?? {}).filter(([, agreement]) => method in agreement);
    return found.map(([other, agreement]) => ({ other, value: agreement[method][layer] }));
  }

  function correlation(label, value) {
    return value === null ? meter(label, 0, "undefined") : meter(label, value, signed(value));
  }

  function group(title, meters) {
    return meters.length ? [make("h3", { text: title }), ...meters] : [];
  }
})());
