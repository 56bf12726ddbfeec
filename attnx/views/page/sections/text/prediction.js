"use strict";
// The model's prediction, and the controls for what is shown.
attnx.prediction = (() => {
  const { make, byId, named, choice, press, slider } = attnx.elements;
  let shown = null;
  let methods, references, views, layer;

  const build = (state) => {
    const { result } = state;
    const { prediction } = result;
    const card = byId("prediction");
    card.replaceChildren();
    if (prediction) {
      const continues = result.causal || result.text.front || result.text.image?.with_text;
      const word = continues ? "The model continues with" : "The model fills in";
      const kinds = {
        token: word,
        value: "The model's value",
        label: `The model predicts, ${prediction.noun}`,
        span: "The model answers",
        choice: "The model chooses",
        tag: "The model tags",
        similarity: "Similarity by cosine",
      };
      const kind = kinds[prediction.kind] ?? "The model predicts";
      const { predicted, certainty, label, probability, against } = prediction;
      const chosen = label !== predicted;
      const sure = (share) => (share === null ? [] : [" ", make("span", { class: "sure", text: `${(share * 100).toFixed(1)} %` })]);
      card.append(
        make("p", { class: "eyebrow", text: kind }),
        make("p", { class: "predicted-label", id: "prediction-label" }, make("span", { text: predicted }), ...sure(certainty)));
      if (chosen || against !== null) {
        card.append(make(
          "p", { class: "target", id: "target" }, "Explained target: ", make("b", { text: label }),
          ...(chosen ? sure(probability) : []), ...(against === null ? [] : [` against ${against}`])));
      }
    } else {
      card.append(make("p", { class: "eyebrow alone", id: "prediction-label", text: "What reaches the explained position" }));
    }
    methods = choice("Method", Object.keys(result.relevance), state.method, (method) => attnx.change({ method }));
    references = choice("Reference", Object.keys(result.references), state.method, (method) =>
      attnx.change({ method, rows: null }));
    const measured = references.childElementCount ? [named("Whole model", references)] : [];
    const punctuated = result.words.some(({ punctuation }) => punctuation);
    const units = ["words", ...(punctuated ? ["content"] : []), "tokens"];
    if (!units.includes(state.view)) state.view = "words";
    views = choice("Unit", units, state.view, (view) => attnx.change({ view }));
    views.hidden = Boolean(result.text.image) && !result.text.image.with_text;
    layer = slider("Layer", { min: 0, max: result.layers.length - 1, step: 1 }, (value) => attnx.change({ layer: value }));
    layer.input.id = "layer";
    layer.whole.hidden = result.layers.length < 2;
    byId("controls").replaceChildren(named("Method", methods), ...measured, layer.whole, views);
  };

  return {
    draw(state) {
      if (shown !== state.result) build(state);
      shown = state.result;
      press(methods, state.method);
      press(references, state.method);
      press(views, state.view);
      layer.input.value = state.layer;
      layer.input.disabled = attnx.numbers.isReference(state);
      const { layers, layer_names: names } = state.result;
      layer.input.setAttribute("aria-valuetext", attnx.numbers.layerName(state));
      layer.value.textContent = `${layers[state.layer]} of ${layers.at(-1)}${names ? ` · ${names[state.layer]}` : ""}`;
    },
  };
})();
