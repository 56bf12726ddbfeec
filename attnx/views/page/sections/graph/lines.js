"use strict";
// The lines of the layered graph: which nodes and layers there is room for, and the share that each line carries.
attnx.graphLines = (() => {
  const { mapRow, most, sum } = attnx.numbers;
  const NODES = 60;
  const COLUMNS = 12;

  // Where positions are many, those that matter most in any layer, in the order of the text.
  const nodesOf = (result, method, rows) => {
    const places = [...result.positions.keys()];
    if (places.length <= NODES) return places;
    const weight = places.map((place) => most(result.relevance[method].map((scores) => scores[place])));
    const must = new Set(rows);
    places.sort((one, other) => must.has(other) - must.has(one) || weight[other] - weight[one]);
    return places.slice(0, NODES).sort((one, other) => one - other);
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
    const found = [];
    columns.forEach((layer, column) => {
      nodes.forEach((query, from) => {
        const own = query === result.position;
        if (!own && !result.maps?.relevance[method]) return;
        const scores = own ? result.relevance[method][layer] : mapRow(result, method, layer, query);
        const whole = sum(scores);
        if (!(whole > 0)) return;
        nodes.forEach((key, to) => {
          const share = scores[key] / whole;
          if (share > 0) found.push({ column, from, to, share });
        });
      });
    });
    found.sort((one, other) => one.share - other.share);
    return { nodes, columns, lines: found, largest: found.length ? found.at(-1).share : 1 };
  };

  return { lines };
})();
