"use strict";
// The numbers of a result: unpacked, chosen, ranked. The rest of the page only draws.
const attnx = {};

attnx.numbers = (() => {
  const bytes = (text) => Uint8Array.from(atob(text), (item) => item.charCodeAt(0));

  const unpack = (result) => {
    if (result.unpacked) return;
    result.unpacked = true;
    for (const [name, packed] of Object.entries(result.heads?.relevance ?? {})) {
      result.heads.relevance[name] = new Float32Array(bytes(packed).buffer);
    }
    for (const item of Object.values(result.maps?.relevance ?? {})) {
      item.values = new Float32Array(bytes(item.values).buffer);
      if (item.indices) item.indices = new Uint16Array(bytes(item.indices).buffer);
    }
  };

  // One row of a map, in full; what was left out of the page is 0.
  const mapRow = (result, method, layer, query) => {
    const length = result.positions.length;
    const { edges } = result.maps;
    const { values, indices } = result.maps.relevance[method];
    const start = (layer * length + query) * edges;
    const row = new Float64Array(length);
    for (let index = 0; index < edges; index++) {
      row[indices ? indices[start + index] : index] = values[start + index];
    }
    return row;
  };

  const headRow = (result, method, layer, head) => {
    const length = result.positions.length;
    const start = (layer * result.heads.count + head) * length;
    return result.heads.relevance[method].subarray(start, start + length);
  };

  // The score of each position for what is explained now: the explained position, or the tokens of a selected word.
  const row = (state, layer = state.layer, method = state.method) => {
    const { result } = state;
    if (Object.hasOwn(result.references, method)) return result.references[method];
    if (state.head !== null && result.heads?.relevance[method]) return headRow(result, method, layer, state.head);
    if (state.rows === null || !result.maps.relevance[method]) return result.relevance[method][layer];
    const rows = state.rows.map((query) => mapRow(result, method, layer, query));
    return rows[0].map((_, position) => rows.reduce((sum, item) => sum + item[position], 0) / rows.length);
  };

  const byWord = (result, scores) =>
    result.words.map((word) => word.positions.reduce((sum, position) => sum + scores[position], 0));

  // Scores are equal when they are as far as their method is exact; of those that do not say, to 1e-9.
  const rounding = ({ result, method }) => {
    const steps = 10 ** (result.digits[method] ?? 9);
    return (score) => Math.round(score * steps) / steps;
  };

  // The rank of one score among all, best first, and how many share it.
  const rank = (scores, index, rounded) => {
    const score = rounded(scores[index]);
    let above = 0;
    let same = 0;
    for (const item of scores) {
      const other = rounded(item);
      if (other > score) above += 1;
      else if (other === score) same += 1;
    }
    return { rank: above + 1, same, of: scores.length };
  };

  const tied = (scores, rounded) => {
    const counts = new Map();
    for (const item of scores) counts.set(rounded(item), (counts.get(rounded(item)) ?? 0) + 1);
    return [...counts.values()].reduce((sum, count) => sum + (count > 1 ? count : 0), 0);
  };

  // A reference was measured on the model: it has one row, without layers or heads.
  const isReference = ({ result, method }) => Object.hasOwn(result.references, method);

  // What has no layers is shown next to the layers of the method that traces back to the input.
  const layered = (state) => (isReference(state) ? { ...state, method: state.result.method } : state);

  // Whether scores say for or against, or only how much.
  const isSigned = ({ result, method }) => result.signed.includes(method);

  // Punctuation, where content alone is looked at.
  const leftOut = (word, view) => view === "content" && Boolean(word.punctuation);

  // Three figures of the strongest score, as far as its method is exact.
  const decimals = (top, { result, method }) =>
    top > 0 ? Math.max(1, Math.min(2 - Math.floor(Math.log10(top)), result.digits[method] ?? 12)) : 3;

  const most = (scores) => scores.reduce((best, item) => Math.max(best, item), 0);
  const strongest = (scores) => scores.reduce((best, item) => (Math.abs(item) > Math.abs(best) ? item : best), 0);
  const sum = (scores) => scores.reduce((total, item) => total + item, 0);
  const signed = (value) => (Math.round(value * 100) / 100 || 0).toFixed(2).replace("-", "−");
  // A level of an encoder–decoder has a name.
  const layerName = ({ result, layer }) => result.layer_names?.[layer] ?? `layer ${result.layers[layer]}`;
  const percent = (share) => `${Math.round(share * 100)} %`;

  return { unpack, isReference, isSigned, leftOut, decimals, layered, mapRow, headRow, row, byWord, rounding, rank, tied, most, strongest, sum, signed, percent, layerName };
})();
