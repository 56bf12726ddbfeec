"use strict";
// How far to trust what is shown: the verdict on the chosen method and layer, and the numbers that it is made of.
attnx.sections.push((() => {
  const { make, byId, meter } = attnx.elements;
  const { row, rounding, tied, sum, percent, signed, isReference, isSigned } = attnx.numbers;
  const agreements = ({ result, method, layer }) =>
    result.trust.between
      .filter(({ between }) => between.includes(method))
      .map(({ between, layers }) => ({ other: between.find((one) => one !== method), value: layers[layer] }));

  // Only the answer's own rows were judged, and of no single head; of others the numbers below are all that is known.
  const verdict = (state, own) => {
    if (!own) return { level: "open", verdict: "Unchecked: what was measured is about the answer, not about this row.", rest: [] };
    const rows = state.result.trust.said[state.method];
    return rows[isReference(state) ? 0 : state.layer];
  };

  return {
    name: "trust",
    draw(state) {
      const { result } = state;
      const { diagnostics, sink, sinkName } = result.trust;
      const scores = row(state);
      const whole = sum(scores);
      const own = state.rows === null && state.head === null;
      const saturation = own ? diagnostics[state.method]?.saturation : null;
      const marks = result.words.filter(({ punctuation }) => punctuation).flatMap(({ positions }) => positions);
      const sizes = [...scores].map(Math.abs);
      const facts = {
        punctuation: sum(sizes) > 0 ? sum(marks.map((place) => sizes[place])) / sum(sizes) : 0,
        tied: tied(scores, rounding(state)) / scores.length,
        special: whole > 0 ? sum([...scores].filter((_, place) => result.positions[place].special)) / whole : 0,
        saturated: saturation ? saturation[state.layer] : 0,
        references: own ? references(state) : [],
      };
      const { level, verdict: sentence, rest } = verdict(state, own);
      // A method's account is of its last layer.
      const last = isReference(state) || state.layer === result.layers.length - 1;
      const account = own && last ? result.trust.accounts[state.method] : null;
      const between = own ? agreements(state) : [];
      byId("trust-body").replaceChildren(
        make("p", { class: `verdict ${level}`, text: raised(sentence) }),
        ...[...rest, ...(account ? [account] : [])].map((text) => make("p", { class: "said-too", text: raised(text) })),
        ...group("Rank correlation with measurements on the model", facts.references.map(({ other, value }) => correlation(other, value))),
        ...group("Rank correlation with other methods", between.map(({ other, value }) => correlation(other, value))),
        ...group("Limits", [
          ...(isSigned(state) ? [] : [meter("special tokens hold", facts.special, percent(facts.special))]),
          ...(marks.length ? [meter("punctuation holds", facts.punctuation, percent(facts.punctuation))] : []),
          meter("positions that tie", facts.tied, percent(facts.tied)),
          ...(saturation ? [meter("inputs saturated", facts.saturated, percent(facts.saturated))] : []),
          ...(sink?.[state.layer] > 0 && !isReference(state)
            ? [meter(`attention on ${sinkName}`, sink[state.layer], percent(sink[state.layer]))] : []),
        ]),
      );
    },
  };

  function raised(sentence) {
    return `${sentence[0].toUpperCase()}${sentence.slice(1)}.`;
  }

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
