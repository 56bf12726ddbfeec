"use strict";
// The generated text. Hover or focus one of its tokens to see its attribution; a click selects it.
attnx.sections.push((() => {
  const { byId, make, refill, choice, named, slider, meter, visible } = attnx.elements;
  const { most } = attnx.numbers;
  const BEST = 8;
  const chosen = { text: 0, step: 0, name: "", layer: -1, against: false };
  let texts = [];
  let marks = [];
  let shownStep = 0;

  const floats = (packed) => new Float32Array(Uint8Array.from(atob(packed), (item) => item.charCodeAt(0)).buffer);

  const unpack = (text) => {
    if (text.unpacked) return;
    text.unpacked = true;
    for (const kept of [text.scores, text.against]) {
      for (const [name, packed] of Object.entries(kept)) kept[name] = floats(packed);
    }
  };

  const text = () => texts[chosen.text];
  const isMeasured = () => text().measured.includes(chosen.name);
  const isSigned = () => text().signed.includes(chosen.name);
  const contrasts = () => chosen.against && Object.hasOwn(text().against, chosen.name);

  // The scores of all sources for one generated token by the selected method.
  const row = (step) => {
    const { predictions, tokens, scores, against, layers } = text();
    const width = tokens.length - 1;
    if (contrasts()) return against[chosen.name].subarray(step * width, (step + 1) * width);
    const rows = scores[chosen.name];
    const layered = rows.length > predictions.length * width;
    const layer = layered ? Math.min(chosen.layer, layers.length - 1) : 0;
    return rows.subarray((layer * predictions.length + step) * width, (layer * predictions.length + step + 1) * width);
  };

  const topOf = (scores, end) =>
    most(Array.from(scores.subarray(0, end), (item, position) => (text().tokens[position].special ? 0 : Math.abs(item))));

  const decimals = (top) => (top > 0 ? Math.max(1, Math.min(2 - Math.floor(Math.log10(top)), text().digits[chosen.name] ?? 8)) : 3);

  const scored = (score, top) => {
    const side = !isSigned() || score === 0 ? "" : score > 0 ? " supports" : " opposes";
    return `${score.toFixed(decimals(top)).replace("-", "−")}${side}`;
  };

  const percent = (share) => (share === null ? "–" : `${(share * 100).toFixed(share < 0.1 ? 2 : 1)} %`);

  const by = () => {
    const { layers, rivals } = text();
    const layer = layers[Math.min(chosen.layer, layers.length - 1)];
    const where = isMeasured() ? " of the whole model" : ` at layer ${layer}`;
    return `${chosen.name}${where}${contrasts() ? `, against ${visible(rivals[shownStep])}` : ""}`;
  };

  const rest = () => {
    const { predictions } = text();
    byId("generation-readout").textContent = `What ${visible(predictions[shownStep].label)} is attributed to, by ${by()}`;
  };

  const tell = (position) => {
    const { tokens, predictions } = text();
    const scores = row(shownStep);
    byId("generation-readout").replaceChildren(
      make("strong", { text: visible(tokens[position].text) }),
      ` ${scores[position].toFixed(6)} for ${visible(predictions[shownStep].label)}, by ${by()}`);
  };

  const role = (name, isOutput = false) => make("span", { class: isOutput ? "role output" : "role", text: name });

  const build = () => {
    const { tokens, prompt, parts } = text();
    const begins = new Map(parts.map(([name, start]) => [start, name]));
    const ends = new Set(parts.map(([, , end]) => end));
    const container = byId("generation-text");
    container.replaceChildren();
    marks = tokens.map((token, at) => {
      const step = at - prompt;
      const mark = step < 0
        ? make("span", { class: "token", text: visible(token.text), onmouseenter: () => tell(at), onmouseleave: rest })
        : make("button", {
            type: "button", class: "token", text: visible(token.text), tabindex: step === chosen.step ? "0" : "-1",
            onmouseenter: () => show(step), onmouseleave: settle,
            onfocus: () => show(step), onblur: settle,
            onclick: () => choose(step), onkeydown: (event) => move(event, step),
          });
      if (token.special) mark.classList.add("special");
      if (token.padding || text().image?.boxes[at]) return mark; // patches and segments are shown in the image
      container.append(token.gap);
      if (begins.has(at)) container.append(role(begins.get(at)));
      else if (ends.has(at) && step < 0) container.append(role("template"));
      if (step === 0) container.append(role("generated", true));
      container.append(mark);
      return mark;
    });
  };

  const move = (event, step) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(text().predictions.length - 1, step + by));
    choose(next);
    marks[text().prompt + next].focus();
  };

  const choose = (step) => {
    chosen.step = step;
    marks.forEach((mark, at) => {
      if (at >= text().prompt) mark.tabIndex = at - text().prompt === step ? 0 : -1;
    });
    show(step);
    grid();
  };

  // Back to the selected token. Nothing is redrawn without need: the button under the pointer would be replaced.
  const settle = () => {
    if (shownStep !== chosen.step) show(chosen.step);
  };

  // Colour everything by the attribution of one generated token.
  const show = (step) => {
    shownStep = step;
    const { prompt, tokens, remarks } = text();
    const scores = row(step);
    const end = prompt + step;
    const top = topOf(scores, end);
    marks.forEach((mark, at) => {
      const score = at < end ? scores[at] : 0;
      const share = top > 0 ? Math.min(Math.abs(score) / top, 1) : 0;
      mark.style.setProperty("--heat", `${(share * 100).toFixed(1)}%`);
      mark.classList.toggle("strong", share > 0.6);
      mark.classList.toggle("opposes", score < 0);
      mark.classList.toggle("later", at > end);
      mark.classList.toggle("chosen", at === end);
      if (at < end) mark.dataset.score = score;
      else delete mark.dataset.score;
      if (at >= prompt) {
        mark.setAttribute("aria-pressed", String(at === prompt + chosen.step));
        mark.setAttribute("aria-label", `generated token ${at - prompt + 1}: ${visible(tokens[at].text)}`);
      }
    });
    byId("generation-remarks").textContent = `${chosen.name} for ${visible(tokens[end].text)}: ${remarks[chosen.name][step]}`;
    legend(top);
    byId("generation-shares").replaceChildren(...attnx.shareBar(text().front, scores.subarray(0, end), text().split.includes(chosen.name)));
    attnx.generationImage.draw(text().image, scores.subarray(0, end));
    sources(scores, end, top);
    parts(scores);
    alternatives(step);
    rest();
  };

  const legend = (top) => {
    const most = top.toFixed(decimals(top));
    byId("generation-legend").replaceChildren(
      ...(isSigned()
        ? [make("span", { text: "opposes" }), make("span", { class: "ramp both" }), make("span", { text: `supports · ${most}` })]
        : [make("span", { text: "0" }), make("span", { class: "ramp" }), make("span", { text: most })]),
      make("span", { class: "hint", text: "Hover over an underlined token, or focus it, to see its attribution; click to select it, or use the arrow keys." }));
  };

  const sources = (scores, end, top) => {
    const { tokens, predictions } = text();
    const order = [...Array(end).keys()].filter((at) => !tokens[at].special && scores[at] !== 0);
    order.sort((a, b) => Math.abs(scores[b]) - Math.abs(scores[a]));
    byId("sources-heading").textContent = `${visible(predictions[shownStep].label)} is attributed most to`;
    byId("sources").replaceChildren(...order.slice(0, BEST).map((at) =>
      meter(visible(tokens[at].text), top > 0 ? scores[at] / top : 0, scored(scores[at], top))));
  };

  // The named parts of the prompt, each with the sum over its tokens.
  const parts = (scores) => {
    const { spans, predictions } = text();
    byId("generation-spans-card").hidden = spans.length === 0;
    const sums = spans.map(([name, positions]) => [name, positions.reduce((sum, position) => sum + scores[position], 0)]);
    const top = most(sums.map(([, sum]) => Math.abs(sum)));
    byId("generation-spans-heading").textContent = `Parts of the prompt for ${visible(predictions[shownStep].label)}`;
    byId("generation-spans").replaceChildren(...sums.map(([name, sum]) => meter(visible(name), top > 0 ? sum / top : 0, scored(sum, top))));
  };

  // The alternatives at this step; the token can be contrasted with the runner-up where that was computed.
  const alternatives = (step) => {
    const { predictions, rivals, against } = text();
    const { label, probability, predicted, certainty, others } = predictions[step];
    const able = Object.hasOwn(against, chosen.name);
    const rivalAt = able ? others.findIndex(([name]) => name === rivals[step]) : -1;
    const line = (name, share, at = null) => {
      const isTarget = at === null;
      const rival = !isTarget && at === rivalAt;
      const cell = rival
        ? make("button", {
            type: "button", text: visible(name), "aria-pressed": String(contrasts()),
            title: contrasts() ? "Explain the token alone" : "Explain the token against this one",
            onclick: () => { chosen.against = !chosen.against; draw(); },
          })
        : make("span", { class: isTarget ? "target" : null, text: visible(name) });
      return make("tr", {}, make("td", {}, cell), make("td", { class: "number", text: percent(share) }));
    };
    const instead = `The model predicts ${visible(predicted)}${certainty === null ? "" : ` (${percent(certainty)})`}; probabilities`;
    byId("alternatives-heading").textContent = predicted === label ? "Probability of the token and of its alternatives" : instead;
    refill(byId("alternatives"), make(
      "table", {}, line(label, probability), ...others.map(([name, share], at) => line(name, share, at))));
  };

  const grid = () => attnx.generationGrid.draw(text(), row, chosen.step, (label, source, score) => {
    byId("grid-readout").textContent = label === null ? "" : `${label} from ${source}: ${score.toFixed(6)}, by ${by()}`;
  }, choose);

  const controls = () => {
    const { names, layers, scores, predictions, tokens } = text();
    const pick = (name) => { chosen.name = name; draw(); };
    const parts = [named("By", choice("Generated text by", names, chosen.name, pick))];
    if (scores[chosen.name].length > predictions.length * (tokens.length - 1)) {
      const layer = slider("Layer", { min: 0, max: layers.length - 1, value: chosen.layer, id: "generation-layer" }, (value) => {
        chosen.layer = value;
        layer.value.textContent = layers[value];
        paint();
      });
      layer.value.textContent = layers[chosen.layer];
      parts.push(layer.whole);
    }
    if (texts.length > 1) {
      const select = make("select", { "aria-label": "Text", onchange: (event) => open(Number(event.target.value)) },
        ...texts.map(({ title }, at) => make("option", { value: at, text: `${at + 1}. ${title}`, selected: at === chosen.text })));
      parts.unshift(select);
    }
    refill(byId("generation-controls"), ...parts);
  };

  const paint = () => {
    show(Math.min(chosen.step, text().predictions.length - 1));
    grid();
  };

  const draw = () => {
    controls();
    // Nothing above the text changes while the pointer is on tokens, or they would move away from it.
    const { predictions, stripes } = text();
    const count = `${predictions.length} generated token${predictions.length > 1 ? "s" : ""}, each explained at the position before it`;
    byId("generation-lead").textContent = [count, ...stripes[chosen.name].map((item) => `${chosen.name}: ${item}`)].join(". ");
    paint();
    byId("generation-notes").replaceChildren(...text().notes.map((note) => make("p", { class: "note", text: note })));
  };

  const open = (number) => {
    const next = texts[number];
    unpack(next);
    chosen.text = number;
    chosen.step = 0;
    chosen.name = next.names.includes(chosen.name) ? chosen.name : next.names[0];
    chosen.layer = next.layers.length - 1;
    attnx.generationGrid.forget();
    build();
    draw();
  };

  return {
    name: "generation",
    whole(data) {
      if (texts !== data.texts) {
        texts = data.texts;
        open(0);
      } else paint();
    },
  };
})());
