"use strict";
// The start: picker and theme switch, and all sections for the first time.
(() => {
  const { make, byId } = attnx.elements;
  const { results } = attnx.data;
  const root = document.documentElement;

  const select = byId("result");
  if (results.length > 1) {
    results.forEach(({ title, prediction }, index) => {
      const chosen = prediction && prediction.label !== prediction.predicted ? `, target ${prediction.label}` : "";
      const answer = prediction ? ` — ${prediction.predicted}${chosen}` : "";
      select.append(make("option", { value: index, text: `${index + 1}. ${title}${answer}` }));
    });
    const go = (index) => {
      select.value = index;
      byId("previous").disabled = index === 0;
      byId("next").disabled = index === results.length - 1;
      attnx.show(index);
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
  // Canvases must be redrawn for other colours and widths.
  const redraw = () => {
    attnx.drawWhole();
    attnx.change({});
  };
  const dress = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    redraw();
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    dress();
  });
  prefersDark.addEventListener("change", dress);
  window.addEventListener("resize", redraw);

  // Paper is white: canvases are redrawn for it, and again for the screen afterwards.
  let before;
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    attnx.printing = true;
    attnx.drawWhole();
    attnx.drawChosen();
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    attnx.printing = false;
    dress();
  });

  byId("plain").hidden = true;
  byId("page").hidden = false;
  if (results.length) attnx.show(0);
  dress();
})();
