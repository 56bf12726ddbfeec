"use strict";
// The lines of the layered graph: which nodes and layers there is room for, and the share that each line carries.
attnx.graphLines = (() => {
  const { mapRow, most, sum } = attnx.numbers;
  const NODES = 60;
  const COLUMNS = 12;

  // Where positions are many, those that matter most in any layer, in the order of the text.
  const nodesOf = (result, method, rows) => {
    const positions = [...result.positions.keys()];
    if (positions.length <= NODES) return positions;
    const weight = positions.map((position) => most(result.relevance[method].map((scores) => scores[position])));
    const must = new Set(rows);
    positions.sort((a, b) => must.has(b) - must.has(a) || weight[b] - weight[a]);
    return positions.slice(0, NODES).sort((a, b) => a - b);
  };

  const columnsOf = (layers) => {
    if (layers.length <= COLUMNS) return [...layers.keys()];
    const step = (layers.length - 1) / (COLUMNS - 1);
    return Array.from({ length: COLUMNS }, (_, at) => Math.round(at * step));
  };

  // Every line as a column, a query, a key (indices into nodes) and its share of what leaves the query.
  const lines = ({ result, method, rows }) => {
    const explained = rows ?? [result.position];
    const nodes = nodesOf(result, method, explained);
    const columns = columnsOf(result.layers);
    const edges = [];
    columns.forEach((layer, column) => {
      nodes.forEach((query, from) => {
        const isExplained = query === result.position;
        if (!isExplained && !result.maps?.relevance[method]) return;
        const scores = isExplained ? result.relevance[method][layer] : mapRow(result, method, layer, query);
        const whole = sum(scores);
        if (!(whole > 0)) return;
        nodes.forEach((key, to) => {
          const share = scores[key] / whole;
          if (share > 0) edges.push({ column, from, to, share });
        });
      });
    });
    edges.sort((a, b) => a.share - b.share);
    return { nodes, columns, lines: edges, largest: edges.length ? edges.at(-1).share : 1 };
  };

  return { lines };
})();
