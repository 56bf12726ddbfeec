"use strict";
// A comparison over many texts: the means with their intervals, or one text picked from the list.
attnx.sections.push((() => {
  const { byId, choice, make, refill } = attnx.elements;
  let reference = null;
  let text = -1;

  const rows = (table) =>
    text < 0
      ? table.means
      : Object.fromEntries(Object.entries(table.texts).map(([method, texts]) => [method, texts[text].map((mean) => ({ mean }))]));

  const foot = (summary, table) => {
    const others = Object.entries(table.others).filter(([, value]) => value !== null);
    const parts = others.map(([name, value]) => `For scale: the ${summary.measure} of ${name} with ${reference} is ${attnx.numbers.signed(value)}.`);
    const undefined_ = Math.max(...Object.values(table.means).flatMap((cells) => cells.map((item) => item.undefined)));
    if (table.named !== reference) parts.push(`Measured: ${table.named}.`);
    if (undefined_) parts.push(`In up to ${undefined_} texts all scores are the same; they are left out.`);
    if (summary.texts.length < summary.count) parts.push(`The first ${summary.texts.length} texts can be picked.`);
    return make("p", { class: "readout", text: parts.join(" ") });
  };

  const whole = (summary) => {
    const pick = attnx.data.results.length === 0;
    const names = Object.keys(summary.references);
    reference ??= names[0];
    const table = summary.references[reference];
    byId("summary-lead").textContent =
      `How far each method ranks positions as the whole-model methods do (${summary.measure}). ` +
      (text < 0 ? `Mean of ${summary.count} texts; the thin line is its 95 % interval.` : "This text alone.");
    const controls = [choice("Reference", names, reference, (name) => { reference = name; whole(summary); })];
    if (pick) {
      const select = make("select", { id: "summary-text" });
      select.addEventListener("change", () => { text = Number(select.value); whole(summary); });
      select.append(make("option", { value: -1, text: `All ${summary.count} texts` }));
      summary.texts.forEach((item, index) => select.append(make("option", { value: index, text: `${index + 1}. ${item}` })));
      select.value = text;
      controls.push(make("label", {}, make("span", { class: "unseen", text: "Text" }), select));
    }
    refill(byId("summary-controls"), ...controls);
    byId("summary-body").replaceChildren(attnx.agreementTable(summary.layers, rows(table)), foot(summary, table));
  };

  return { name: "summary", whole };
})());
