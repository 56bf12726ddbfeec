"use strict";
// Tables as they are printed: headings, lines of cells, and notes.
attnx.sections.push((() => {
  const { byId, make } = attnx.elements;

  const row = (cell, cells) => make("tr", {}, ...cells.map((text) => make(cell, { text })));

  const table = ([head, ...body]) => make("div", { class: "scroll" }, make(
    "table", { class: "agreement" },
    make("thead", {}, row("th", head)), make("tbody", {}, ...body.map((cells) => row("td", cells)))));

  const block = ({ heading, lead, lines, foot }) => [
    ...(heading ? [make("h2", { text: heading })] : []),
    ...lead.map((text) => make("p", { class: "note", text })),
    ...(lines.length ? [table(lines)] : []),
    ...foot.map((text) => make("p", { class: "note", text })),
  ];

  return {
    name: "tables",
    whole({ tables }) {
      byId("tables").replaceChildren(...tables.map((item) => make("div", { class: "table" }, ...block(item))));
    },
  };
})());
