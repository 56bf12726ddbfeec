"use strict";
// Generated tokens × source tokens on a canvas: hover or arrow keys show a score, a click selects a token.
attnx.generationGrid = (() => {
  const { byId, visible } = attnx.elements;
  const { theme, sheet, font, clipped } = attnx.colours;
  const [HIGHEST, LOWEST, MOST, LEFT, LABELLED] = [18, 4, 460, 72, 9];
  const canvas = byId("generation-grid");
  let now = null;
  let cursor = null;

  const draw = (text, row, step, tell, choose) => {
    const steps = text.predictions.length;
    const sources = text.tokens.length - 1;
    const high = Math.max(LOWEST, Math.min(HIGHEST, MOST / steps));
    const { pen, width } = sheet(canvas, steps * high + 1);
    const left = high >= LABELLED ? LEFT : 0;
    const cell = (width - left) / sources;
    const colours = theme();
    now = { text, row, step, tell, choose, steps, high, cell, left };
    pen.font = font(Math.min(12, high));
    pen.textBaseline = "middle";
    for (let at = 0; at < steps; at++) {
      const scores = row(at);
      const end = text.prompt + at;
      const top = scores.slice(0, end).reduce((best, item, source) => (text.tokens[source].special ? best : Math.max(best, Math.abs(item))), 0);
      for (let source = 0; source < end; source++) {
        pen.fillStyle = colours.heat(top > 0 ? Math.max(-1, Math.min(1, scores[source] / top)) : 0);
        pen.fillRect(left + source * cell, at * high, cell + 0.5, high - (high > 6 ? 1 : 0));
      }
      pen.fillStyle = at === step ? colours.ink : colours.muted;
      if (left) pen.fillText(clipped(pen, visible(text.predictions[at].label), left - 8), 0, (at + 0.5) * high);
    }
    pen.fillStyle = colours.muted;
    pen.fillRect(left + text.prompt * cell - 0.5, 0, 1, steps * high);
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(left + 0.75, step * high + 0.25, (text.prompt + step) * cell - 1.5, high - 0.5);
    if (cursor && cursor.step < steps) {
      pen.lineWidth = 2;
      pen.strokeRect(left + cursor.source * cell, cursor.step * high, Math.max(cell, 3), high);
    }
  };

  const read = () => {
    const { text, row, tell } = now;
    const { step, source } = cursor;
    tell(visible(text.predictions[step].label), visible(text.tokens[source].text), row(step)[source]);
  };

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const step = Math.min(now.steps - 1, Math.max(0, Math.floor((event.clientY - box.top) / now.high)));
    const source = Math.max(0, Math.floor((event.clientX - box.left - now.left) / now.cell));
    return { step, source: Math.min(source, now.text.prompt + step - 1) };
  };

  canvas.addEventListener("mousemove", (event) => {
    cursor = at(event);
    read();
  });
  canvas.addEventListener("mouseleave", () => {
    cursor = null;
    now.tell(null);
  });
  canvas.addEventListener("click", (event) => now.choose(at(event).step));
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (event.key === "Enter" && cursor) now.choose(cursor.step);
    if (!move) return;
    event.preventDefault();
    const from = cursor ?? { step: 0, source: -move[1] };
    const step = Math.max(0, Math.min(now.steps - 1, from.step + (cursor ? move[0] : 0)));
    cursor = { step, source: Math.max(0, Math.min(now.text.prompt + step - 1, from.source + move[1])) };
    read();
    draw(now.text, now.row, now.step, now.tell, now.choose);
  });

  return { draw, forget: () => { cursor = null; } };
})();
