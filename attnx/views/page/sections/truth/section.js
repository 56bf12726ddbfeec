"use strict";
// Known answers: explainers down, suites across; chance and the fixed orders stand on top.
attnx.sections.push((() => {
  const { byId, make } = attnx.elements;
  const notes = (texts) => texts.map((text) => make("p", { class: "note", text }));

  return {
    name: "truth",
    whole({ heading, legend, foot, columns, cells }) {
      byId("truth-lead").textContent = heading;
      byId("truth-legend").replaceChildren(...notes(legend));
      byId("truth-body").replaceChildren(attnx.agreementTable(columns, cells, () => false, ""));
      byId("truth-foot").replaceChildren(...notes(foot));
    },
  };
})());
