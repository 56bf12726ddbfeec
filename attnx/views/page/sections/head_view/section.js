"use strict";
// Each head by itself: lines from one query to its keys, and the same of all heads of a layer as small panels.
attnx.sections.push((() => {
  const { byId, make, named, choice, visible } = attnx.elements;
  const { most } = attnx.numbers;
  const SVG = "http://www.w3.org/2000/svg";
  const [NODES, FAINTEST, LONGEST] = [40, 0.02, 16];
  let shown = null;
  let method = "";
  let layer = 0;
  let head = 0;
  let clicked = null;

  // The query of the lines: what the page explains, or what was clicked here where the page has no other rows.
  const queryOf = ({ result, rows }) => (result.maps ? (rows ?? [result.position])[0] : clicked ?? result.position);

  const explain = (index) => {
    clicked = index;
    if (attnx.state.result.maps) attnx.explainRow([index]);
    else draw(attnx.state);
  };

  const svg = (tag, attributes, ...children) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") made.textContent = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== null) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  };

  const bytes = (text) => Uint8Array.from(atob(text), (item) => item.charCodeAt(0)).buffer;

  const unpack = ({ relevance }) => {
    for (const item of Object.values(relevance)) {
      if (typeof item.values === "string") item.values = new Float32Array(bytes(item.values));
      if (typeof item.indices === "string") item.indices = new Uint16Array(bytes(item.indices));
    }
  };

  // One row in full; what was left out of the page is 0.
  const rowOf = (result, at, query) => {
    const { edges, heads, relevance } = result.head_view;
    const { values, indices } = relevance[method];
    const length = result.positions.length;
    const start = ((layer * heads + at) * length + query) * edges;
    const row = new Float64Array(length);
    for (let index = 0; index < edges; index++) row[indices ? indices[start + index] : index] = values[start + index];
    return row;
  };

  // Where positions are many, those that any head of the layer gives most, and the query, in the order of the text.
  const nodesOf = (result, rows, query) => {
    const indices = [...result.positions.keys()];
    if (indices.length <= NODES) return indices;
    const weight = indices.map((index) => (index === query ? Infinity : most(rows.map((row) => row[index]))));
    return indices.sort((a, b) => weight[b] - weight[a]).slice(0, NODES).sort((a, b) => a - b);
  };

  const label = (position) => {
    const text = visible(position.label);
    return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
  };

  const lines = (row, nodes, query, { top, left, right, y, widest }) =>
    nodes.flatMap((index, node) => {
      const share = top > 0 ? Math.abs(row[index]) / top : 0;
      if (share < FAINTEST) return [];
      return [svg("line", {
        x1: left, y1: y(nodes.indexOf(query)), x2: right, y2: y(node), "stroke-width": (0.6 + widest * share).toFixed(2),
        "stroke-opacity": (0.2 + 0.8 * share).toFixed(2), "data-key": index, "data-score": row[index],
      })];
    });

  const large = (state, row, nodes, query) => {
    const [width, high, left, right] = [360, 24, 128, 232];
    const y = (node) => 12 + node * high;
    const top = most([...row].map(Math.abs));
    const words = nodes.flatMap((index, node) => {
      const item = state.result.positions[index];
      const kind = item.special ? "special" : "";
      const share = top > 0 ? Math.abs(row[index]) / top : 0;
      const isQuery = index === query;
      return [
        svg("text", {
          x: left - 10, y: y(node) + 4, "text-anchor": "end", class: `pick ${kind} ${isQuery ? "query" : ""}`, text: label(item),
          tabindex: "0", role: "button", "aria-label": `Query ${label(item)}`, "data-query": index,
          onclick: () => explain(index),
          onkeydown: (event) => { if (event.key === "Enter") explain(index); },
        }),
        svg("rect", { x: right + 4, y: y(node) - 9, width: 116, height: 18, rx: 3, "fill-opacity": (0.75 * share).toFixed(3) }),
        svg("text", { x: right + 10, y: y(node) + 4, class: kind, text: label(item) },
          svg("title", { text: `${label(item)} ${row[index].toFixed(6)}` })),
      ];
    });
    const size = `0 0 ${width} ${nodes.length * high + 4}`;
    return svg("svg", { viewBox: size, role: "group", "aria-label": `Layer ${layerName(state)}, head ${head}` },
      ...lines(row, nodes, query, { top, left: left - 4, right: right + 2, y, widest: 6 }), ...words);
  };

  const layerName = ({ result }) => result.layers[result.head_view.layers[layer]];

  const panel = (state, row, nodes, query, at, top) => {
    const [width, height] = [80, 56];
    const y = (node) => 3 + (node * (height - 6)) / Math.max(nodes.length - 1, 1);
    const best = nodes.reduce((a, b) => (row[b] > row[a] ? b : a), nodes[0]);
    const told = `${label(state.result.positions[best])} ${row[best].toFixed(2)}`;
    return make(
      "button",
      {
        type: "button", class: "head-panel", "aria-pressed": String(at === head), "data-head": at,
        "aria-label": `Head ${at}: most to ${told}`, onclick: () => { head = at; draw(attnx.state); },
      },
      make("b", { text: `head ${at}` }),
      svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
        ...lines(row, nodes, query, { top, left: 4, right: width - 4, y, widest: 3 })),
      make("small", { text: `${row[best].toFixed(2)} ${label(state.result.positions[best])}` }),
    );
  };

  const picker = (text, names, chosen, choose) => {
    const select = make("select", { "aria-label": text, onchange: (event) => choose(Number(event.target.value)) });
    names.forEach((name, index) => select.append(make("option", { value: index, text: name })));
    select.value = chosen;
    return named(text, select);
  };

  const controls = (state) => {
    const { result } = state;
    const { layers, heads, relevance } = result.head_view;
    const again = (set) => (value) => { set(value); draw(attnx.state); };
    const names = Object.keys(relevance);
    attnx.elements.refill(
      byId("head-view-controls"),
      ...(names.length > 1 ? [named("Method", choice("Head view by", names, method, again((item) => { method = item; })))] : []),
      picker("Layer", layers.map((index) => result.layers[index]), layer, again((item) => { layer = item; })),
      picker("Head", Array.from({ length: heads }, (_, at) => at), head, again((item) => { head = item; })),
    );
  };

  const lead = (state, nodes, query) => {
    const parts = [`From “${label(state.result.positions[query])}” to what it ${
      state.result.local.includes(method) ? "attends to in this layer" : "draws from in the input"}, head by head. Click a word at the left for its lines.`];
    if (nodes.length < state.result.positions.length) {
      parts.push(`Shown are the ${nodes.length} of ${state.result.positions.length} positions that get most.`);
    }
    if (state.result.head_view.left_out) parts.push(`For room, ${state.result.head_view.left_out}.`);
    return parts.join(" ");
  };

  const draw = (state) => {
    const { result } = state;
    const query = queryOf(state);
    const rows = Array.from({ length: result.head_view.heads }, (_, at) => rowOf(result, at, query));
    const nodes = nodesOf(result, rows, query);
    // The panels share one scale, so that a head that spreads its attention looks as faint as it is.
    const top = most(rows.map((row) => most([...row].map(Math.abs))));
    controls(state);
    byId("head-view-lead").textContent = lead(state, nodes, query);
    byId("head-view-lines").replaceChildren(large(state, rows[head], nodes, query));
    attnx.elements.refill(
      byId("head-view-panels"), ...rows.map((row, at) => panel(state, row, nodes, query, at, top)));
    const best = [...rows[head].keys()].sort((a, b) => rows[head][b] - rows[head][a]).slice(0, 3);
    byId("head-view-readout").textContent = `Layer ${layerName(state)}, head ${head}: most to ${
      best.map((index) => `“${label(result.positions[index])}” ${rows[head][index].toFixed(4)}`).join(", ")}`;
  };

  return {
    name: "head_view",
    applies: ({ result }) => Boolean(result.head_view),
    draw(state) {
      const { result } = state;
      if (!result.head_view.layers) {
        byId("head-view-lead").textContent = `Not shown: ${result.head_view.left_out}.`;
        for (const part of ["controls", "lines", "panels", "readout"]) byId(`head-view-${part}`).replaceChildren();
        shown = result;
        return;
      }
      if (shown !== result) {
        unpack(result.head_view);
        const names = Object.keys(result.head_view.relevance);
        method = names.find((name) => result.local.includes(name)) ?? names[0];
        layer = result.head_view.layers.length - 1;
        head = 0;
        clicked = null;
      }
      shown = result;
      draw(state);
    },
  };
})());
