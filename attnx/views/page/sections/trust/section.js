"use strict";
// How far to trust what is shown: the summary for the selected method and layer, and its numbers.
attnx.sections.push((() => {
  const { make, byId, meter } = attnx.elements;
  const { row, rounding, tied, sum, percent, signed, isReference, isSigned } = attnx.numbers;
  const agreements = ({ result, method, layer }) =>
    result.trust.between
      .filter(({ between }) => between.includes(method))
      .map(({ between, layers }) => ({ other: between.find((item) => item !== method), value: layers[layer] }));

  // Only the rows of the explained position were checked, and of no single head.
  const verdict = (state, isDefaultRow) => {
    if (!isDefaultRow) return { level: "open", verdict: "Unchecked: the checks are of the explained position, not of this row.", rest: [] };
    const rows = state.result.trust.warnings[state.method];
    return rows[isReference(state) ? 0 : state.layer];
  };

  return {
    name: "trust",
    draw(state) {
      const { result } = state;
      const { diagnostics, sink, sinkName } = result.trust;
      const scores = row(state);
      const whole = sum(scores);
      const isDefaultRow = state.rows === null && state.head === null;
      const saturation = isDefaultRow ? diagnostics[state.method]?.saturation : null;
      const marks = result.words.filter(({ punctuation }) => punctuation).flatMap(({ positions }) => positions);
      const sizes = [...scores].map(Math.abs);
      const facts = {
        punctuation: sum(sizes) > 0 ? sum(marks.map((position) => sizes[position])) / sum(sizes) : 0,
        tied: tied(scores, rounding(state)) / scores.length,
        special: whole > 0 ? sum([...scores].filter((_, position) => result.positions[position].special)) / whole : 0,
        saturated: saturation ? saturation[state.layer] : 0,
        references: isDefaultRow ? references(state) : [],
      };
      const { level, verdict: sentence, rest } = verdict(state, isDefaultRow);
      // A method's account is of its last layer.
      const last = isReference(state) || state.layer === result.layers.length - 1;
      const account = isDefaultRow && last ? result.trust.accounts[state.method] : null;
      const between = isDefaultRow ? agreements(state) : [];
      byId("trust-body").replaceChildren(
        make("p", { class: `verdict ${level}`, text: raised(sentence) }),
        ...[...rest, ...(account ? [account] : [])].map((text) => make("p", { class: "warning", text: raised(text) })),
        ...group("Rank correlation with whole-model methods", facts.references.map(({ other, value }) => correlation(other, value))),
        ...group("Rank correlation with other methods", between.map(({ other, value }) => correlation(other, value))),
        ...group("Limits", [
          ...(isSigned(state) ? [] : [meter("special tokens receive", facts.special, percent(facts.special))]),
          ...(marks.length ? [meter("punctuation receives", facts.punctuation, percent(facts.punctuation))] : []),
          meter("tied positions", facts.tied, percent(facts.tied)),
          ...(saturation ? [meter("saturated inputs", facts.saturated, percent(facts.saturated))] : []),
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
    const entries = Object.entries(result.agreement ?? {}).filter(([, agreement]) => method in agreement);
    return entries.map(([other, agreement]) => ({ other, value: agreement[method][layer] }));
  }

  function correlation(label, value) {
    return value === null ? meter(label, 0, "undefined") : meter(label, value, signed(value));
  }

  function group(title, meters) {
    return meters.length ? [make("h3", { text: title }), ...meters] : [];
  }
})());
