"use strict";
// A comparison over many texts: the means with their intervals, or one text picked from the list.
attnx.sections.push((() => {
  const { byId, choice, make, refill } = attnx.elements;
  let reference = null;
  let text = -1;

  const rows = (found) =>
    text < 0
      ? found.means
      : Object.fromEntries(Object.entries(found.texts).map(([method, texts]) => [method, texts[text].map((mean) => ({ mean }))]));

  const foot = (summary, found) => {
    const others = Object.entries(found.others).filter(([, value]) => value !== null);
    const parts = others.map(([name, value]) => `For scale: the ${summary.measure} of ${name} with ${reference} is ${attnx.numbers.signed(value)}.`);
    const undefined_ = Math.max(...Object.values(found.means).flatMap((cells) => cells.map((one) => one.undefined)));
    if (found.named !== reference) parts.push(`Measured: ${found.named}.`);
    if (undefined_) parts.push(`In up to ${undefined_} texts all scores are the same; they are left out.`);
    if (summary.texts.length < summary.count) parts.push(`The first ${summary.texts.length} texts can be picked.`);
    return make("p", { class: "readout", text: parts.join(" ") });
  };

  const whole = (summary) => {
    const pick = attnx.data.results.length === 0;
    const names = Object.keys(summary.references);
    reference ??= names[0];
    const found = summary.references[reference];
    byId("summary-lead").textContent =
      `How far each method ranks positions as measurements on the model do (${summary.measure}). ` +
      (text < 0 ? `Mean of ${summary.count} texts; the thin line is its 95 % interval.` : "This text alone.");
    const controls = [choice("Reference", names, reference, (name) => { reference = name; whole(summary); })];
    if (pick) {
      const select = make("select", { id: "summary-text" });
      select.addEventListener("change", () => { text = Number(select.value); whole(summary); });
      select.append(make("option", { value: -1, text: `All ${summary.count} texts` }));
      summary.texts.forEach((one, index) => select.append(make("option", { value: index, text: `${index + 1}. ${one}` })));
      select.value = text;
      controls.push(make("label", {}, make("span", { class: "unseen", text: "Text" }), select));
    }
    refill(byId("summary-controls"), ...controls);
    byId("summary-body").replaceChildren(attnx.agreementTable(summary.layers, rows(found)), foot(summary, found));
  };

  return { name: "summary", whole };
})());
