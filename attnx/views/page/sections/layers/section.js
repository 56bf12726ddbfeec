"use strict";
// Layer × position as a heat map, the last layer on top, a panel a method (Figure 2). A click chooses layer and method.
attnx.sections.push((() => {
  const { byId, visible, make } = attnx.elements;
  const { row, byWord, most, strongest, layered, leftOut, layerName } = attnx.numbers;
  const { theme, font, sheet, clipped } = attnx.colours;
  const [LEFT, NAMED, TITLE, NARROWEST, LABELLED] = [30, 72, 30, 3, 14];
  const canvas = byId("layers-canvas");
  let grid = null;
  let cursor = null;

  const unitsOf = ({ result, view }) =>
    view !== "tokens"
      ? result.words.filter((word) => !leftOut(word, view)).map(({ text }) => ({ text, special: false }))
      : result.positions.map(({ label, special }) => ({ text: label, special }));

  // Where there are more units than pixels, a column is the strongest of a few.
  const columnsOf = (units, room) => {
    const together = Math.max(1, Math.ceil((units.length * NARROWEST) / room));
    const columns = [];
    for (let start = 0; start < units.length; start += together) {
      columns.push({ start, end: Math.min(start + together, units.length), ...units[start] });
    }
    return { columns, together };
  };

  const valuesOf = (state, method, columns) =>
    state.result.layers.map((_, layer) => {
      const scores = row(state, layer, method);
      const words = state.result.words;
      const values = state.view === "tokens" ? scores : byWord(state.result, scores).filter((_, at) => !leftOut(words[at], state.view));
      return columns.map(({ start, end }) => strongest(Array.from({ length: end - start }, (_, at) => values[start + at])));
    });

  // All methods side by side where their columns can be labelled, else the chosen one alone.
  const lay = (state) => {
    const { result } = state;
    const units = unitsOf(state);
    const all = Object.keys(result.relevance);
    const width = attnx.colours.width(canvas);
    const left = result.layer_names ? NAMED : LEFT;
    const fit = (width / all.length - left - 24) / units.length >= 2 * LABELLED;
    const methods = fit ? all : [state.method];
    const room = width / methods.length - left - (methods.length > 1 ? 24 : 0);
    const { columns, together } = columnsOf(units, room);
    const panels = methods.map((method, index) => {
      const values = valuesOf(state, method, columns);
      const top = Math.max(...values.map((item) => most(item.filter((_, at) => !columns[at].special).map(Math.abs))), 0);
      return { method, values, top, x: index * (width / methods.length) + left };
    });
    const cell = Math.min(room / columns.length, 84);
    const high = Math.max(8, Math.min(28, 340 / result.layers.length));
    return { units, columns, together, panels, cell, high, layers: result.layer_names ?? result.layers };
  };

  const top = (layer) => TITLE + (grid.layers.length - 1 - layer) * grid.high;

  const draw = (state) => {
    grid = lay(state);
    const { columns, panels, cell, high, layers } = grid;
    const probe = canvas.getContext("2d");
    probe.font = font(12);
    const longest = Math.min(Math.max(...columns.map(({ text }) => probe.measureText(visible(text)).width)), 90);
    const label = cell < LABELLED ? "none" : longest + 4 < cell ? "level" : "slanted";
    const below = { none: 6, level: 24, slanted: longest * 0.72 + 18 }[label];
    const { pen } = sheet(canvas, TITLE + layers.length * high + below);
    const colours = theme();
    for (const panel of panels) {
      cells(pen, panel, colours);
      frame(pen, panel, state, colours);
      if (label !== "none") names(pen, panel, label, colours);
    }
    if (cursor) {
      pen.lineWidth = 2.5;
      pen.strokeStyle = colours.ink;
      pen.strokeRect(panels[cursor.panel].x + cursor.at * cell - 1, top(cursor.layer) - 1, cell, high);
    }
  };

  const cells = (pen, { x, values, top: highest }, colours) => {
    const { cell, high } = grid;
    values.forEach((scores, layer) => scores.forEach((score, at) => {
      pen.fillStyle = colours.heat(highest > 0 ? score / highest : 0);
      pen.fillRect(x + at * cell, top(layer), Math.max(cell - (cell > 8 ? 2 : 0), 1), high - (high > 10 ? 2 : 0));
    }));
  };

  const frame = (pen, { method, x }, state, colours) => {
    const { columns, cell, high, layers } = grid;
    const chosen = method === attnx.state.method;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.font = `${chosen ? "600 " : ""}${font(13)}`;
    pen.fillStyle = chosen ? colours.ink : colours.muted;
    pen.fillText(method, x, 10);
    pen.textAlign = "right";
    layers.forEach((number, layer) => {
      const on = chosen && layer === state.layer;
      pen.font = `${on ? "600 " : ""}${font(12)}`;
      pen.fillStyle = on ? colours.ink : colours.muted;
      if (high >= 12 || on || layer === 0) pen.fillText(number, x - 10, top(layer) + high / 2 - 1);
    });
    if (!chosen) return;
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(x - 1, top(state.layer) - 1, columns.length * cell, high);
  };

  const names = (pen, { x }, label, colours) => {
    const { columns, cell, high, layers } = grid;
    pen.font = font(12);
    columns.forEach(({ text, special }, at) => {
      pen.save();
      pen.fillStyle = special ? colours.muted : colours.ink;
      pen.translate(x + at * cell + cell / 2 - 1, TITLE + layers.length * high + 8);
      pen.textAlign = label === "level" ? "center" : "right";
      if (label === "slanted") pen.rotate(-Math.PI / 4);
      pen.fillText(clipped(pen, visible(text), 90), 0, label === "level" ? 4 : 0);
      pen.restore();
    });
  };

  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const layer = grid.layers.length - 1 - Math.floor((event.clientY - box.top - TITLE) / grid.high);
    if (grid.layers[layer] === undefined) return null;
    for (const [panel, { x }] of grid.panels.entries()) {
      const at = Math.floor((event.clientX - box.left - x) / grid.cell);
      if (grid.columns[at]) return { panel, at, layer };
    }
    return null;
  };

  const tell = () => {
    const out = byId("layers-readout");
    if (!cursor) {
      out.textContent = "Hover a cell, or move with the arrow keys.";
      return;
    }
    const { start, end } = grid.columns[cursor.at];
    const { method, values } = grid.panels[cursor.panel];
    const name = grid.units.slice(start, end).map(({ text }) => visible(text)).join(" ");
    out.replaceChildren(
      `${method}, ${layerName({ result: attnx.state.result, layer: cursor.layer })} · `, make("strong", { text: name }),
      ` ${values[cursor.layer][cursor.at].toFixed(6)}`,
    );
  };

  const move = (to) => {
    cursor = to;
    draw(attnx.state);
    tell();
  };

  canvas.addEventListener("mousemove", (event) => move(under(event)));
  canvas.addEventListener("mouseleave", () => move(null));
  canvas.addEventListener("blur", () => move(null));
  canvas.addEventListener("click", (event) => {
    const to = under(event);
    if (to) attnx.change({ layer: to.layer, method: grid.panels[to.panel].method });
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (event.key === "Enter" && cursor) attnx.change({ layer: cursor.layer, method: grid.panels[cursor.panel].method });
    if (!step) return;
    event.preventDefault();
    const panel = Math.max(0, grid.panels.findIndex(({ method }) => method === attnx.state.method));
    const from = cursor ?? { panel, at: 0, layer: attnx.state.layer };
    const at = from.panel * grid.columns.length + from.at + step[1];
    const last = grid.panels.length * grid.columns.length - 1;
    const column = Math.max(0, Math.min(last, at));
    move({
      panel: Math.floor(column / grid.columns.length),
      at: column % grid.columns.length,
      layer: Math.max(0, Math.min(grid.layers.length - 1, from.layer + step[0])),
    });
  });

  return {
    name: "layers",
    applies: ({ result }) => result.words.length > 0,
    draw(current) {
      const state = layered(current);
      cursor = null;
      draw(state);
      tell();
      const together = grid.together > 1 ? ` Each column is the strongest of ${grid.together} ${state.view}.` : "";
      byId("layers-lead").textContent =
        `What reaches the explained position after each layer; layer 1 is closest to the input.${together}`;
      canvas.setAttribute("aria-label", `Heat map, ${state.result.layers.length} layers by ${grid.units.length} ${state.view}`);
    },
  };
})());
