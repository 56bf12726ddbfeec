"use strict";
// Faithfulness over many texts: four numbers for each explainer, and the score while positions go and come back.
attnx.sections.push((() => {
  const { byId, make } = attnx.elements;
  const { theme, font, sheet } = attnx.colours;
  const TITLES = { deletion: "deletion: most relevant first", insertion: "insertion: most relevant first" };
  const COLOURS = ["#3f87c4", "#d9631e", "#179c77", "#c0629a", "#8f6fd1", "#a8842a"];
  const [LEFT, TOP, HIGH, BELOW, NARROW] = [44, 34, 190, 46, 620];
  const canvas = byId("faithfulness-canvas");

  // Chance is last, grey and dashed.
  const colourOf = (index, names, { muted }) => (index === names.length - 1 ? muted : COLOURS[index % COLOURS.length]);

  const rangeOf = (curves) => {
    const scores = Object.values(curves).flatMap((lines) => Object.values(lines).flat());
    return { low: Math.min(0, ...scores), high: Math.max(1, ...scores) };
  };

  const frame = (pen, { x, y, width, low, high }, title, colours) => {
    pen.fillStyle = colours.ink;
    pen.font = `600 ${font(13)}`;
    pen.textAlign = "left";
    pen.fillText(title, x, y - 16);
    pen.font = font(12);
    pen.fillStyle = colours.muted;
    pen.strokeStyle = colours.line;
    pen.lineWidth = 1;
    for (const share of [0, 0.5, 1]) {
      const level = y + HIGH * (1 - share);
      pen.beginPath();
      pen.moveTo(x, level);
      pen.lineTo(x + width, level);
      pen.stroke();
      pen.textAlign = "right";
      pen.fillText((low + (high - low) * share).toFixed(1), x - 8, level + 4);
      pen.textAlign = share === 0 ? "left" : share === 1 ? "right" : "center";
      pen.fillText(`${share * 100} %`, x + width * share, y + HIGH + 18);
    }
    pen.textAlign = "center";
    pen.fillText("of the positions", x + width / 2, y + HIGH + 34);
  };

  const line = (pen, { x, y, width, low, high }, scores, colour, dashed) => {
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.setLineDash(dashed ? [5, 4] : []);
    pen.beginPath();
    scores.forEach((score, at) =>
      pen.lineTo(x + (width * at) / (scores.length - 1), y + HIGH * (1 - (score - low) / (high - low))));
    pen.stroke();
    pen.setLineDash([]);
  };

  const whole = ({ heading, foot, score, metrics, cells, curves }) => {
    const colours = theme();
    const names = Object.keys(cells);
    byId("faithfulness-lead").textContent = heading;
    byId("faithfulness-body").replaceChildren(
      attnx.agreementTable(metrics, cells, () => false, ""), make("p", { class: "readout", text: foot }));
    const wide = attnx.colours.width(canvas);
    const stacked = wide < NARROW;
    const panel = stacked ? wide : wide / 2;
    const { pen } = sheet(canvas, (TOP + HIGH + BELOW) * (stacked ? 2 : 1));
    Object.entries(curves).forEach(([kind, lines], index) => {
      const at = { x: LEFT + (stacked ? 0 : index * panel), y: TOP + (stacked ? index * (TOP + HIGH + BELOW) : 0) };
      const plot = { ...at, width: panel - LEFT - 20, ...rangeOf(curves) };
      frame(pen, plot, TITLES[kind], colours);
      names.forEach((name, number) =>
        line(pen, plot, lines[name], colourOf(number, names, colours), number === names.length - 1));
    });
    canvas.setAttribute("aria-label", `Curves: ${score} of the target while positions go, and while they come back`);
    byId("faithfulness-key").replaceChildren(make("span", { text: `Mean ${score} of the target:` }), ...names.map((name, index) => {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = colourOf(index, names, colours);
      return make("span", { class: "key" }, swatch, name);
    }));
  };

  return { name: "faithfulness", whole };
})());
