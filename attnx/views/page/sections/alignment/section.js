"use strict";
// A pair of sentences: the word that is clicked on colours the other side, by its row or its column of the scores.
attnx.sections.push((() => {
  const { byId, make, visible } = attnx.elements;
  let number = 0;
  let chosen = null;

  const most = (values) => Math.max(0, ...values.map(Math.abs));

  const heat = (element, score, top) => {
    const share = top > 0 ? Math.min(Math.abs(score) / top, 1) : 0;
    element.style.setProperty("--heat", `${(share * 100).toFixed(1)}%`);
    element.classList.toggle("strong", share > 0.6);
    element.classList.toggle("opposes", score < 0);
    element.dataset.score = score;
  };

  const others = ({ source, target }) => (chosen.side === "target" ? source : target);
  const rowOf = ({ scores }) => (chosen.side === "target" ? scores[chosen.at] : scores.map((row) => row[chosen.at]));
  const linked = ({ links }, side, at) => links.some(([source, target]) => (side === "source"
    ? source === at && target === chosen.at : target === at && source === chosen.at));

  const pick = (data, side, at) => {
    chosen = { side, at };
    colour(data);
  };

  const words = (data, side) => byId(`alignment-${side}`).replaceChildren(...data.sentences[number][side].map((word, at) =>
    make("button", { type: "button", text: visible(word), onclick: () => pick(data, side, at) })));

  const colour = (data) => {
    const item = data.sentences[number];
    const scores = rowOf(item);
    const top = most(scores);
    for (const side of ["source", "target"]) {
      [...byId(`alignment-${side}`).children].forEach((button, at) => {
        const isChosenSide = side === chosen.side;
        button.setAttribute("aria-pressed", String(isChosenSide && at === chosen.at));
        button.classList.toggle("linked", !isChosenSide && linked(item, side, at));
        heat(button, isChosenSide ? 0 : scores[at], top);
        button.setAttribute("aria-label", isChosenSide ? visible(item[side][at]) : `${visible(item[side][at])}, ${scores[at].toFixed(4)}`);
      });
    }
    [...byId("alignment-grid").querySelectorAll("tbody tr")].forEach((row, at) =>
      row.classList.toggle("chosen", chosen.side === "target" && at === chosen.at));
    const best = scores.indexOf(Math.max(...scores));
    const verb = data.verbs[chosen.side];
    byId("alignment-readout").replaceChildren(
      make("strong", { text: visible(item[chosen.side][chosen.at]) }),
      best < 0 || top === 0 ? " has no score" : ` ${verb} ${visible(others(item)[best])} most: ${scores[best].toFixed(4)}`,
    );
  };

  const grid = (data) => {
    const { source, target, scores, links } = data.sentences[number];
    const top = most(scores.flat());
    const head = make("thead", {}, make("tr", {}, make("td", {}), ...source.map((word) => make("th", { scope: "col", text: visible(word) }))));
    const body = make("tbody", {}, ...target.map((word, row) => make(
      "tr", {}, make("th", { scope: "row", text: visible(word) }),
      ...source.map((other, column) => {
        const score = scores[row][column];
        const cell = make("td", { title: `${visible(word)} ${data.arrow} ${visible(other)}: ${score.toFixed(4)}`, onclick: () => pick(data, "target", row) });
        heat(cell, score, top);
        cell.classList.toggle("linked", links.some(([from, to]) => from === column && to === row));
        return cell;
      }))));
    byId("alignment-grid").replaceChildren(head, body);
  };

  const draw = (data) => {
    words(data, "source");
    words(data, "target");
    grid(data);
    if (data.sentences[number].target.length) pick(data, chosen?.side ?? "target", chosen?.at ?? data.start);
  };

  const picker = (data) => {
    const select = make("select", { "aria-label": "Pair of sentences", onchange: () => {
      number = Number(select.value);
      chosen = null;
      draw(data);
    } });
    select.append(...data.sentences.map(({ source }, at) =>
      make("option", { value: at, text: `${at + 1}. ${visible(source.join(" ")).slice(0, 80)}` })));
    select.value = number;
    return select;
  };

  return {
    name: "alignment",
    whole(data) {
      byId("alignment-title").textContent = data.title;
      byId("alignment-all").textContent = data.all;
      for (const side of ["source", "target"]) byId(`alignment-${side}-name`).textContent = data.names[side];
      byId("alignment-lead").textContent = `${data.headline}. Click a word to colour the other side.`;
      byId("alignment-controls").replaceChildren(...(data.sentences.length > 1 ? [picker(data)] : []));
      draw(data);
      byId("alignment-notes").replaceChildren(...data.notes.map((note) => make("p", { class: "note", text: note })));
    },
  };
})());
