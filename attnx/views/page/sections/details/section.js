"use strict";
// Notes on the input and on what was left out, and the provenance of the numbers.
attnx.sections.push((() => {
  const { make, byId } = attnx.elements;
  let shown = null;

  return {
    name: "details",
    draw({ result }) {
      if (shown === result) return;
      shown = result;
      const rows = result.details.provenance.map(([name, value]) =>
        make("tr", {}, make("th", { scope: "row", text: name }), make("td", { text: value })));
      byId("details").replaceChildren(
        ...result.notes.map((note) => make("p", { class: "note", text: note })),
        make("details", {}, make("summary", { text: "Where these numbers come from" }), make("table", {}, ...rows)),
      );
    },
  };
})());
