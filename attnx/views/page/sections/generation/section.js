"use strict";
// The text that was written. Hover or focus a token of it to see what it drew from; a click keeps it.
attnx.sections.push((() => {
  const { byId, make, refill, choice, named, slider, meter, visible } = attnx.elements;
  const { most } = attnx.numbers;
  const BEST = 8;
  const chosen = { text: 0, step: 0, name: "", layer: -1, against: false };
  let texts = [];
  let marks = [];
  let shownStep = 0;

  const floats = (packed) => new Float32Array(Uint8Array.from(atob(packed), (one) => one.charCodeAt(0)).buffer);

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

  // The scores of all sources for one written token, as they are chosen.
  const row = (step) => {
    const { answers, tokens, scores, against, layers } = text();
    const width = tokens.length - 1;
    if (contrasts()) return against[chosen.name].subarray(step * width, (step + 1) * width);
    const own = scores[chosen.name];
    const layered = own.length > answers.length * width;
    const layer = layered ? Math.min(chosen.layer, layers.length - 1) : 0;
    return own.subarray((layer * answers.length + step) * width, (layer * answers.length + step + 1) * width);
  };

  const topOf = (scores, end) =>
    most(Array.from(scores.subarray(0, end), (one, place) => (text().tokens[place].special ? 0 : Math.abs(one))));

  const decimals = (top) => (top > 0 ? Math.max(1, Math.min(2 - Math.floor(Math.log10(top)), text().digits[chosen.name] ?? 8)) : 3);

  const scored = (score, top) => {
    const side = !isSigned() || score === 0 ? "" : score > 0 ? " for" : " against";
    return `${score.toFixed(decimals(top)).replace("-", "−")}${side}`;
  };

  const percent = (share) => (share === null ? "–" : `${(share * 100).toFixed(share < 0.1 ? 2 : 1)} %`);

  const by = () => {
    const { layers, rivals } = text();
    const layer = layers[Math.min(chosen.layer, layers.length - 1)];
    const where = isMeasured() ? ", measured on the model" : ` at layer ${layer}`;
    return `${chosen.name}${where}${contrasts() ? `, against ${visible(rivals[shownStep])}` : ""}`;
  };

  const rest = () => {
    const { answers } = text();
    byId("written-readout").textContent = `What ${visible(answers[shownStep].label)} drew from, by ${by()}`;
  };

  const tell = (place) => {
    const { tokens, answers } = text();
    const scores = row(shownStep);
    byId("written-readout").replaceChildren(
      make("strong", { text: visible(tokens[place].text) }),
      ` ${scores[place].toFixed(6)} for ${visible(answers[shownStep].label)}, by ${by()}`);
  };

  const role = (name, own = false) => make("span", { class: own ? "role own" : "role", text: name });

  const build = () => {
    const { tokens, prompt, parts } = text();
    const begins = new Map(parts.map(([name, start]) => [start, name]));
    const ends = new Set(parts.map(([, , end]) => end));
    const place = byId("written");
    place.replaceChildren();
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
      if (token.padding || text().picture?.boxes[at]) return mark; // patches and stretches are seen in the picture
      place.append(token.gap);
      if (begins.has(at)) place.append(role(begins.get(at)));
      else if (ends.has(at) && step < 0) place.append(role("template"));
      if (step === 0) place.append(role("written", true));
      place.append(mark);
      return mark;
    });
  };

  const move = (event, step) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(text().answers.length - 1, step + by));
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

  // Back to the chosen one. Nothing is drawn anew without need: a button under the pointer would be another one.
  const settle = () => {
    if (shownStep !== chosen.step) show(chosen.step);
  };

  // Colour everything by what one written token drew from.
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
      mark.classList.toggle("against", score < 0);
      mark.classList.toggle("later", at > end);
      mark.classList.toggle("chosen", at === end);
      if (at < end) mark.dataset.score = score;
      else delete mark.dataset.score;
      if (at >= prompt) {
        mark.setAttribute("aria-pressed", String(at === prompt + chosen.step));
        mark.setAttribute("aria-label", `written token ${at - prompt + 1}: ${visible(tokens[at].text)}`);
      }
    });
    byId("written-remarks").textContent = `${chosen.name} for ${visible(tokens[end].text)}: ${remarks[chosen.name][step]}`;
    legend(top);
    byId("written-shares").replaceChildren(...attnx.shareBar(text().front, scores.subarray(0, end), text().split.includes(chosen.name)));
    attnx.writtenPicture.draw(text().picture, scores.subarray(0, end));
    drawn(scores, end, top);
    parts(scores);
    likely(step);
    rest();
  };

  const legend = (top) => {
    const most = top.toFixed(decimals(top));
    byId("written-legend").replaceChildren(
      ...(isSigned()
        ? [make("span", { text: "against" }), make("span", { class: "ramp both" }), make("span", { text: `for · ${most}` })]
        : [make("span", { text: "0" }), make("span", { class: "ramp" }), make("span", { text: most })]),
      make("span", { class: "hint", text: "Hover or focus a written token, underlined, to see its sources; click to keep it. Arrows move." }));
  };

  const drawn = (scores, end, top) => {
    const { tokens, answers } = text();
    const order = [...Array(end).keys()].filter((at) => !tokens[at].special && scores[at] !== 0);
    order.sort((one, other) => Math.abs(scores[other]) - Math.abs(scores[one]));
    byId("drawn-heading").textContent = `${visible(answers[shownStep].label)} drew most from`;
    byId("drawn").replaceChildren(...order.slice(0, BEST).map((at) =>
      meter(visible(tokens[at].text), top > 0 ? scores[at] / top : 0, scored(scores[at], top))));
  };

  // The parts of the prompt that were named, each with the sum over its tokens.
  const parts = (scores) => {
    const { spans, answers } = text();
    byId("written-spans-card").hidden = spans.length === 0;
    const sums = spans.map(([name, places]) => [name, places.reduce((sum, place) => sum + scores[place], 0)]);
    const top = most(sums.map(([, sum]) => Math.abs(sum)));
    byId("written-spans-heading").textContent = `Parts of the prompt for ${visible(answers[shownStep].label)}`;
    byId("written-spans").replaceChildren(...sums.map(([name, sum]) => meter(visible(name), top > 0 ? sum / top : 0, scored(sum, top))));
  };

  // What else might have been written there; the runner-up can be set against it where that was computed.
  const likely = (step) => {
    const { answers, rivals, against } = text();
    const { label, probability, predicted, certainty, others } = answers[step];
    const able = Object.hasOwn(against, chosen.name);
    const line = (name, share, own) => {
      const rival = !own && able && rivals[step] === name;
      const cell = rival
        ? make("button", {
            type: "button", text: visible(name), "aria-pressed": String(contrasts()),
            title: contrasts() ? "Explain the token alone" : "Explain the token against this one",
            onclick: () => { chosen.against = !chosen.against; draw(); },
          })
        : make("span", { class: own ? "own" : null, text: visible(name) });
      return make("tr", {}, make("td", {}, cell), make("td", { class: "number", text: percent(share) }));
    };
    const instead = `The model predicts ${visible(predicted)}${certainty === null ? "" : ` (${percent(certainty)})`}; probabilities`;
    byId("likely-heading").textContent = predicted === label ? "Probability of the token and of its alternatives" : instead;
    refill(byId("likely"), make(
      "table", {}, line(label, probability, true), ...others.map(([name, share]) => line(name, share, false))));
  };

  const grid = () => attnx.writtenGrid.draw(text(), row, chosen.step, (label, source, score) => {
    byId("grid-readout").textContent = label === null ? "" : `${label} from ${source}: ${score.toFixed(6)}, by ${by()}`;
  }, choose);

  const controls = () => {
    const { names, layers, scores, answers, tokens } = text();
    const pick = (name) => { chosen.name = name; draw(); };
    const parts = [named("By", choice("Written text by", names, chosen.name, pick))];
    if (scores[chosen.name].length > answers.length * (tokens.length - 1)) {
      const layer = slider("Layer", { min: 0, max: layers.length - 1, value: chosen.layer, id: "written-layer" }, (value) => {
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
    refill(byId("written-controls"), ...parts);
  };

  const paint = () => {
    show(Math.min(chosen.step, text().answers.length - 1));
    grid();
  };

  const draw = () => {
    controls();
    // Above the text nothing changes while tokens are pointed at, or they would move away from the pointer.
    const { answers, stripes } = text();
    const written = `${answers.length} token${answers.length > 1 ? "s" : ""} written, each explained from the one before it`;
    byId("written-lead").textContent = [written, ...stripes[chosen.name].map((one) => `${chosen.name}: ${one}`)].join(". ");
    paint();
    byId("written-notes").replaceChildren(...text().notes.map((note) => make("p", { class: "note", text: note })));
  };

  const open = (number) => {
    const own = texts[number];
    unpack(own);
    chosen.text = number;
    chosen.step = 0;
    chosen.name = own.names.includes(chosen.name) ? chosen.name : own.names[0];
    chosen.layer = own.layers.length - 1;
    attnx.writtenGrid.forget();
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
