"use strict";
// The prediction, and the text as a heat map. Hover or focus shows the exact score; a click explains that word's row.
attnx.sections.push((() => {
  const { make, byId, meter, visible } = attnx.elements;
  const { row, byWord, rounding, rank, most, isReference, isSigned, decimals, leftOut, layerName } = attnx.numbers;
  const [SHORT, LONG, BEST] = [14, 120, 5];
  let built = "";
  let marks = [];
  let scores = [];
  let units = [];

  const unitsOf = ({ result, view }) =>
    view !== "tokens"
      ? result.words.map((word) => ({ ...word, plain: leftOut(word, view) }))
      : result.positions.map((item, position) => ({
          text: item.label, gap: position ? " " : "", positions: [position], special: item.special, token: item.token, timed: item.timed,
        }));

  const build = (state) => {
    units = unitsOf(state);
    const { image } = state.result.text;
    const drawn = ({ positions }) => Boolean(image?.with_text) && positions.every((position) => image.boxes[position]);
    const read = units.filter((unit) => !drawn(unit)).length;
    const reading = byId("reading");
    reading.replaceChildren();
    reading.classList.toggle("short", read <= SHORT);
    reading.classList.toggle("long", read > LONG);
    marks = units.map((unit, index) => {
      const mark = make(
        state.result.maps ? "button" : "span",
        {
          class: unit.special ? "word special" : unit.plain ? "word plain" : "word",
          tabindex: "0",
          type: state.result.maps ? "button" : null,
          text: visible(unit.text),
          onmouseenter: () => tell(index),
          onmouseleave: rest,
          onfocus: () => tell(index),
          onblur: rest,
          onclick: state.result.maps ? () => attnx.explainRow(unit.positions) : () => tell(index),
        },
      );
      // Segments of audio, and patches, are shown in the image.
      if (!(unit.timed && image) && !drawn(unit)) reading.append(unit.gap, mark);
      return mark;
    });
  };

  const explained = ({ result, rows }) => {
    const positions = rows ?? [result.position];
    return positions.map((position) => visible(result.positions[position].label)).join("");
  };

  const tell = (index) => {
    const unit = units[index];
    const counted = [...scores].filter((_, at) => at === index || !units[at].plain);
    const rankIndex = [...scores].slice(0, index).filter((_, at) => !units[at].plain).length;
    const { rank: nth, same, of } = rank(counted, rankIndex, rounding(attnx.state));
    const named = unit.token && unit.token !== unit.text ? ` (token ${visible(unit.token)})` : "";
    byId("readout").replaceChildren(
      make("strong", { text: `${visible(unit.text)}${named}` }),
      ` ${scores[index].toFixed(6)} · rank ${nth} of ${of}`,
      same > 1 ? ` · ties with ${same - 1} other${same > 2 ? "s" : ""}: their order means nothing` : " · no tie",
    );
  };

  // The readout while the pointer is nowhere.
  const rest = () => {
    const { state } = attnx;
    const layer = `${layerName(state)}${state.head === null ? "" : `, head ${state.head}`}`;
    byId("readout").textContent = isReference(state)
      ? `What changes the prediction most, by ${state.method}`
      : `What reaches ${explained(state)} most, by ${state.method} at ${layer}`;
  };

  // With significant decimals, and the sign in words.
  const scored = (score, top) => {
    const side = !isSigned(attnx.state) || score === 0 ? "" : score > 0 ? " supports" : " opposes";
    return `${score.toFixed(decimals(top, attnx.state)).replace("-", "−")}${side}`;
  };

  const ends = (top) => {
    const most = top.toFixed(decimals(top, attnx.state));
    return isSigned(attnx.state)
      ? [make("span", { text: "opposes" }), make("span", { class: "ramp both" }), make("span", { text: `supports · ${most}` })]
      : [make("span", { text: "0" }), make("span", { class: "ramp" }), make("span", { text: most })];
  };

  const best = (top) => {
    const order = [...scores.keys()].filter((index) => !units[index].special && !units[index].plain);
    order.sort((a, b) => Math.abs(scores[b]) - Math.abs(scores[a]));
    byId("best").classList.toggle("sided", isSigned(attnx.state));
    byId("best").replaceChildren(...order.slice(0, BEST).map((index) =>
      meter(visible(units[index].text), top > 0 ? scores[index] / top : 0, scored(scores[index], top))));
  };

  // Mark the words of some positions.
  const outline = (positions) => {
    const wanted = new Set(positions);
    marks.forEach((mark, index) => {
      mark.classList.toggle("outlined", units[index].positions.some((position) => wanted.has(position)));
    });
  };

  // For the image and the parts, which use positions.
  attnx.text = { tell: (position) => tell(units.findIndex(({ positions }) => positions.includes(position))), rest, outline };

  byId("back").addEventListener("click", () => attnx.change({ rows: null, head: null }));

  return {
    name: "text",
    draw(state) {
      attnx.prediction.draw(state);
      const { image } = state.result.text;
      const withText = image?.with_text || (image?.audio && state.result.words.some(({ timed }) => !timed));
      byId("reading").hidden = Boolean(image) && !withText;
      byId("back").hidden = state.rows === null && state.head === null;
      const key = `${state.index} ${state.view}`;
      if (built !== key) build(state);
      built = key;
      const byPosition = row(state);
      scores = state.view === "tokens" ? byPosition : byWord(state.result, byPosition);
      const top = most([...scores].map((score, at) => (units[at].special || units[at].plain ? 0 : Math.abs(score))));
      const chosen = new Set(state.rows ?? [state.result.position]);
      marks.forEach((mark, index) => {
        const share = top > 0 && !units[index].plain ? Math.min(Math.abs(scores[index]) / top, 1) : 0;
        mark.style.setProperty("--heat", `${(share * 100).toFixed(1)}%`);
        mark.classList.toggle("strong", share > 0.6);
        mark.classList.toggle("opposes", scores[index] < 0);
        mark.classList.toggle("explained", units[index].positions.every((position) => chosen.has(position)));
        mark.dataset.score = scores[index];
        mark.setAttribute("aria-label", `${visible(units[index].text)}, ${scores[index].toFixed(4)}`);
      });
      const part = image?.audio ? "segment" : image?.with_text ? "word or patch" : "patch";
      const unit = image ? part : state.view === "tokens" ? "token" : "word";
      byId("legend").replaceChildren(
        ...ends(top),
        make("span", {
          class: "hint",
          text: state.result.maps ? `Hover for a score, click to explain that ${unit}.` : "Hover or tab for a score.",
        }),
      );
      best(top);
      const { front, split } = state.result.text;
      const fixed = !isReference(state) && split[state.method]?.[state.layer];
      byId("text-shares").replaceChildren(...(front ? attnx.shareBar(front, byPosition, fixed) : []));
      rest();
      attnx.image.draw(state);
    },
  };
})());
