"use strict";
// The layered graph: the input at the left, a column of nodes a layer, lines as wide as their weight (Figure 1).
attnx.sections.push((() => {
  const { byId, make, slider, visible } = attnx.elements;
  const { theme, font, sheet, clipped } = attnx.colours;
  const [FEW_LINES, FIRST_LINES, MOST_LINES] = [40, 600, 1200];
  const THIN = 20;
  const canvas = byId("graph-canvas");
  let key = "";
  let shown = null;
  let graph = null;
  let layout = null;
  let hovered = null;
  let kept = { key: "" };
  let waiting = false;
  let drawn = "";
  // Squared, so that the many thin lines have most of the slider.
  const threshold = slider("Thinnest line", { min: 0, max: 100, step: 1, value: 24 }, () => paintSoon());
  threshold.input.id = "threshold";
  byId("graph-controls").append(threshold.whole);
  const leastShare = () => (threshold.input.value / 100) ** 2 * graph.largest;

  // At first so many lines that a reader can follow them.
  const settle = () => {
    const thickness = (rank) => Math.sqrt((graph.lines.at(-rank)?.share ?? 0) / graph.largest) * 100;
    const thin = Math.min(THIN, Math.floor(thickness(FEW_LINES)));
    threshold.input.value = Math.max(thin, Math.ceil(thickness(FIRST_LINES)));
  };

  const lay = (state) => {
    const high = Math.max(14, Math.min(34, 620 / graph.nodes.length));
    const width = attnx.colours.width(canvas);
    const probe = canvas.getContext("2d");
    probe.font = font(13);
    const names = graph.nodes.map((item) => visible(state.result.positions[item].label));
    const left = Math.min(Math.max(...names.map((name) => probe.measureText(name).width)) + 22, width * 0.3);
    const step = (width - left - 16) / graph.columns.length;
    const y = (node) => 34 + (node + 0.5) * high;
    return { high, left, step, names, y, x: (column) => left + column * step, height: 42 + graph.nodes.length * high };
  };

  const stroke = (pen, lines, colour, strength, largest = graph.largest) => {
    const widest = Math.min(5.5, layout.high / 3);
    const bend = layout.step * 0.45;
    pen.strokeStyle = colour;
    for (const { column, from, to, share } of lines) {
      const weight = share / largest;
      const [x0, x1, y0, y1] = [layout.x(column), layout.x(column + 1), layout.y(to), layout.y(from)];
      pen.globalAlpha = Math.min(1, strength * (0.18 + 0.82 * weight));
      pen.lineWidth = 0.5 + widest * weight;
      pen.beginPath();
      pen.moveTo(x0, y0);
      pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  };

  const shownLines = () => {
    const least = leastShare();
    const first = graph.lines.findIndex(({ share }) => share >= least);
    return graph.lines.slice(first).slice(-MOST_LINES);
  };

  // All lines, drawn once and kept: pointing at a node then costs no more than its own lines.
  const veil = (lines, colour) => {
    const sheetOf = document.createElement("canvas");
    [sheetOf.width, sheetOf.height] = [canvas.width, canvas.height];
    const pen = sheetOf.getContext("2d");
    pen.scale(canvas.width / parseFloat(canvas.style.width), canvas.height / parseFloat(canvas.style.height));
    stroke(pen, lines, colour, 0.75);
    return sheetOf;
  };

  const paint = (state) => {
    layout = lay(state);
    const colours = theme();
    const { pen, width } = sheet(canvas, layout.height);
    const lines = shownLines();
    const now = [key, lines.length, canvas.width, colours.lines].join(" ");
    if (now !== kept.key) kept = { key: now, lines, veil: veil(lines, colours.lines) };
    const chosen = new Set((state.rows ?? [state.result.position]).map((item) => graph.nodes.indexOf(item)));
    pen.globalAlpha = hovered ? 0.35 : 1;
    pen.drawImage(kept.veil, 0, 0, width, layout.height);
    pen.globalAlpha = 1;
    // A node under the pointer shows all its lines.
    const nodeLines = hovered
      ? graph.lines.filter(({ from, column }) => hovered.node === from && hovered.column === column + 1)
      : kept.lines.filter(({ from }) => chosen.has(from));
    stroke(pen, nodeLines, colours.hot, 1.2, hovered ? nodeLines.at(-1)?.share : graph.largest);
    nodes(pen, state, colours, chosen);
    pen.fillStyle = colours.muted;
    pen.font = font(12);
    pen.textAlign = "center";
    pen.fillText("input", layout.x(0), 16);
    graph.columns.forEach((layer, column) =>
      pen.fillText(state.result.layers[layer], Math.min(layout.x(column + 1), width - 8), 16));
    const most = kept.lines.length === MOST_LINES ? ", the strongest" : "";
    threshold.value.textContent = `${leastShare().toFixed(3)} · ${kept.lines.length} of ${graph.lines.length} lines${most}`;
  };

  const nodes = (pen, state, colours, chosen) => {
    const dot = Math.min(4, layout.high / 4);
    graph.nodes.forEach((item, node) => {
      pen.fillStyle = chosen.has(node) ? colours.ink : colours.muted;
      for (let column = 0; column <= graph.columns.length; column++) {
        const here = hovered && hovered.node === node && hovered.column === column;
        pen.beginPath();
        pen.arc(layout.x(column), layout.y(node), here ? dot + 3 : dot, 0, 2 * Math.PI);
        pen.fill();
      }
      pen.font = `${chosen.has(node) ? "600 " : ""}${font(Math.min(13, layout.high - 1))}`;
      pen.fillStyle = state.result.positions[item].special && !chosen.has(node) ? colours.muted : colours.ink;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillText(clipped(pen, layout.names[node], layout.left - 14), layout.x(0) - 12, layout.y(node));
    });
  };

  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const node = Math.round((event.clientY - box.top - 34) / layout.high - 0.5);
    const column = Math.max(0, Math.round((event.clientX - box.left - layout.left) / layout.step));
    return graph.nodes[node] !== undefined && column <= graph.columns.length ? { node, column } : null;
  };

  const tell = (state) => {
    const out = byId("graph-readout");
    if (!hovered) {
      out.textContent = `Hover a node to see its lines${state.result.maps ? ", click to explain it" : ""}.`;
      return;
    }
    const { node, column } = hovered;
    const nodeLines = graph.lines.filter((line) => line.from === node && line.column === column - 1);
    const best = nodeLines.slice(-3).reverse().map((line) => `${layout.names[line.to]} ${line.share.toFixed(4)}`);
    const where = column ? attnx.numbers.layerName({ result: state.result, layer: graph.columns[column - 1] }) : "input";
    out.replaceChildren(
      `${where} · `, make("strong", { text: layout.names[node] }), best.length ? ` takes most from ${best.join(", ")}` : "",
    );
  };

  const paintSoon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      paint(attnx.state);
    });
  };

  const move = (to) => {
    if (to?.node === hovered?.node && to?.column === hovered?.column) return;
    hovered = to;
    paintSoon();
    tell(attnx.state);
  };

  canvas.addEventListener("mousemove", (event) => move(under(event)));
  canvas.addEventListener("mouseleave", () => move(null));
  canvas.addEventListener("blur", () => move(null));
  canvas.addEventListener("click", (event) => {
    const to = under(event);
    if (to) attnx.explainRow([graph.nodes[to.node]]);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && hovered) attnx.explainRow([graph.nodes[hovered.node]]);
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const from = hovered ?? { node: 0, column: graph.columns.length };
    move({
      node: Math.max(0, Math.min(graph.nodes.length - 1, from.node + step[0])),
      column: Math.max(0, Math.min(graph.columns.length, from.column + step[1])),
    });
  });

  const lead = ({ result, method }) => {
    const meaning = result.local.includes(method) ? "to what it attends to in the layer below" : "to the inputs that reach it";
    const parts = [`Lines lead from each node ${meaning}, as shares of 1 by ${method}.`];
    if (!result.maps) parts.push("Only the lines of the explained position were kept.");
    if (graph.nodes.length < result.positions.length) {
      parts.push(`Shown are the ${graph.nodes.length} of ${result.positions.length} positions that matter most.`);
    }
    if (graph.columns.length < result.layers.length) {
      parts.push(`${graph.columns.length} of ${result.layers.length} layers have a column.`);
    }
    return parts.join(" ");
  };

  return {
    name: "graph",
    // Nothing here depends on the layer that is shown, so a step of its slider costs nothing.
    draw(current) {
      const state = attnx.numbers.layered(current);
      const now = `${state.index} ${state.method} ${state.rows}`;
      if (now !== key) graph = attnx.graphLines.lines(state);
      if (shown !== state.result) settle();
      shown = state.result;
      key = now;
      const look = [key, attnx.colours.width(canvas), theme().lines, attnx.colours.scale()].join(" ");
      if (look === drawn) return;
      drawn = look;
      hovered = null;
      byId("graph-lead").textContent = lead(state);
      const size = `${graph.nodes.length} positions and ${graph.columns.length} layers`;
      canvas.setAttribute("aria-label", `Layered graph, ${size}; arrow keys move, Enter explains`);
      paint(state);
      tell(state);
    },
  };
})());
