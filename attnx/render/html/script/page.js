"use strict";
// The start: data in, picker and theme switch, first result.
(() => {
  const { make, byId } = attnx.elements;
  const data = JSON.parse(byId("data").textContent);
  const { results } = data;
  const root = document.documentElement;
  attnx.data = data;

  const select = byId("result");
  if (results.length > 1) {
    results.forEach(({ title, prediction }, index) => {
      const answer = prediction ? ` — ${prediction.label}` : "";
      select.append(make("option", { value: index, text: `${index + 1}. ${title}${answer}` }));
    });
    const go = (index) => {
      select.value = index;
      byId("previous").disabled = index === 0;
      byId("next").disabled = index === results.length - 1;
      attnx.show(results, index);
    };
    select.addEventListener("change", () => go(Number(select.value)));
    byId("previous").addEventListener("click", () => go(attnx.state.index - 1));
    byId("next").addEventListener("click", () => go(attnx.state.index + 1));
    byId("previous").disabled = true;
    byId("picker").hidden = false;
    byId("picker").addEventListener("submit", (event) => event.preventDefault());
  }

  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = byId("theme");
  const isDark = () => (root.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";
  // Unlike tables, curves have to be drawn anew for other colours and widths.
  const curves = () => { if (data.faithfulness) attnx.faithfulness.draw(data.faithfulness); };
  const dress = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    curves();
    attnx.change({});
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    dress();
  });
  prefersDark.addEventListener("change", dress);

  // Paper is white: canvases are drawn anew for it, and again for the screen afterwards.
  let before;
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    attnx.printing = true;
    curves();
    if (attnx.state.result) for (const section of attnx.sections) section.draw(attnx.state);
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    attnx.printing = false;
    dress();
  });
  window.addEventListener("resize", () => { curves(); attnx.change({}); });

  byId("plain").hidden = true;
  byId("page").hidden = false;
  if (data.summary) attnx.summary.draw(data.summary, results.length === 0);
  if (data.atlas) attnx.atlas.draw(data.atlas);
  byId("one").hidden = results.length === 0;
  if (results.length) attnx.show(results, 0);
  dress();
})();
