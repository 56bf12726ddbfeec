"use strict";
// The answer, and the text as a heat map. Hover or focus tells a score exactly; a click explains that word's own row.
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
      : result.positions.map((one, place) => ({
          text: one.label, gap: place ? " " : "", positions: [place], special: one.special, token: one.token, timed: one.timed,
        }));

  const build = (state) => {
    units = unitsOf(state);
    const { picture } = state.result.text;
    const drawn = ({ positions }) => Boolean(picture?.beside) && positions.every((place) => picture.boxes[place]);
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
      // Stretches of time, and patches, have their place in the picture.
      if (!(unit.timed && picture) && !drawn(unit)) reading.append(unit.gap, mark);
      return mark;
    });
  };

  const explained = ({ result, rows }) => {
    const places = rows ?? [result.position];
    return places.map((place) => visible(result.positions[place].label)).join("");
  };

  const tell = (index) => {
    const unit = units[index];
    const counted = [...scores].filter((_, at) => at === index || !units[at].plain);
    const own = [...scores].slice(0, index).filter((_, at) => !units[at].plain).length;
    const { rank: place, same, of } = rank(counted, own, rounding(attnx.state));
    const named = unit.token && unit.token !== unit.text ? ` (token ${visible(unit.token)})` : "";
    byId("readout").replaceChildren(
      make("strong", { text: `${visible(unit.text)}${named}` }),
      ` ${scores[index].toFixed(6)} · rank ${place} of ${of}`,
      same > 1 ? ` · ties with ${same - 1} other${same > 2 ? "s" : ""}: their order means nothing` : " · no tie",
    );
  };

  // What the readout says while nothing is pointed at.
  const rest = () => {
    const { state } = attnx;
    const layer = `${layerName(state)}${state.head === null ? "" : `, head ${state.head}`}`;
    byId("readout").textContent = isReference(state)
      ? `What moves the model most, by ${state.method}`
      : `What reaches ${explained(state)} most, by ${state.method} at ${layer}`;
  };

  // With as many decimals as mean something, and on which side it is.
  const scored = (score, top) => {
    const side = !isSigned(attnx.state) || score === 0 ? "" : score > 0 ? " for" : " against";
    return `${score.toFixed(decimals(top, attnx.state)).replace("-", "−")}${side}`;
  };

  const ends = (top) => {
    const most = top.toFixed(decimals(top, attnx.state));
    return isSigned(attnx.state)
      ? [make("span", { text: "against" }), make("span", { class: "ramp both" }), make("span", { text: `for · ${most}` })]
      : [make("span", { text: "0" }), make("span", { class: "ramp" }), make("span", { text: most })];
  };

  const best = (top) => {
    const order = [...scores.keys()].filter((index) => !units[index].special && !units[index].plain);
    order.sort((one, other) => Math.abs(scores[other]) - Math.abs(scores[one]));
    byId("best").classList.toggle("sided", isSigned(attnx.state));
    byId("best").replaceChildren(...order.slice(0, BEST).map((index) =>
      meter(visible(units[index].text), top > 0 ? scores[index] / top : 0, scored(scores[index], top))));
  };

  // The words of some positions, told from the others.
  const outline = (places) => {
    const wanted = new Set(places);
    marks.forEach((mark, index) => {
      mark.classList.toggle("outlined", units[index].positions.some((place) => wanted.has(place)));
    });
  };

  // For the picture and the parts, which know positions.
  attnx.text = { tell: (place) => tell(units.findIndex(({ positions }) => positions.includes(place))), rest, outline };

  byId("back").addEventListener("click", () => attnx.change({ rows: null, head: null }));

  return {
    name: "text",
    draw(state) {
      attnx.answer.draw(state);
      const { picture } = state.result.text;
      const beside = picture?.beside || (picture?.sound && state.result.words.some(({ timed }) => !timed));
      byId("reading").hidden = Boolean(picture) && !beside;
      byId("back").hidden = state.rows === null && state.head === null;
      const key = `${state.index} ${state.view}`;
      if (built !== key) build(state);
      built = key;
      const places = row(state);
      scores = state.view === "tokens" ? places : byWord(state.result, places);
      const top = most([...scores].map((score, at) => (units[at].special || units[at].plain ? 0 : Math.abs(score))));
      const chosen = new Set(state.rows ?? [state.result.position]);
      marks.forEach((mark, index) => {
        const share = top > 0 && !units[index].plain ? Math.min(Math.abs(scores[index]) / top, 1) : 0;
        mark.style.setProperty("--heat", `${(share * 100).toFixed(1)}%`);
        mark.classList.toggle("strong", share > 0.6);
        mark.classList.toggle("against", scores[index] < 0);
        mark.classList.toggle("explained", units[index].positions.every((place) => chosen.has(place)));
        mark.dataset.score = scores[index];
        mark.setAttribute("aria-label", `${visible(units[index].text)}, ${scores[index].toFixed(4)}`);
      });
      const part = picture?.sound ? "stretch" : picture?.beside ? "word or patch" : "patch";
      const unit = picture ? part : state.view === "tokens" ? "token" : "word";
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
      byId("text-shares").replaceChildren(...(front ? attnx.shareBar(front, places, fixed) : []));
      rest();
      attnx.picture.draw(state);
    },
  };
})());
