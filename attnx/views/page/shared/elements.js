"use strict";
// Elements made by hand. Text goes in as text: nothing here parses markup.
attnx.elements = (() => {
  const make = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === false) continue;
      if (name === "text") made.textContent = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  };

  const byId = (id) => document.getElementById(id);

  const named = (label, group) => make("div", { class: "named-choice" }, make("span", { text: label }), group);

  // A row of buttons of which one is pressed; arrows move between them.
  const choice = (label, names, chosen, choose) => {
    const group = make("div", { class: "choice", role: "radiogroup", "aria-label": label });
    names.forEach((name, index) => {
      const on = name === chosen;
      group.append(
        make("button", {
          type: "button", role: "radio", "aria-checked": String(on), tabindex: on ? "0" : "-1", text: name,
          "data-name": name,
          onclick: () => choose(name),
          onkeydown: (event) => {
            const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
            if (!step) return;
            event.preventDefault();
            const next = (index + step + names.length) % names.length;
            group.children[next].focus();
            choose(names[next]);
          },
        }),
      );
    });
    return group;
  };

  const press = (group, chosen) => {
    const here = [...group.children].some((button) => button.dataset.name === chosen);
    [...group.children].forEach((button, index) => {
      const on = button.dataset.name === chosen;
      button.setAttribute("aria-checked", String(on));
      button.tabIndex = on || (!here && index === 0) ? 0 : -1;
    });
  };

  const slider = (label, attributes, change) => {
    const value = make("output", { class: "value" });
    const input = make("input", { type: "range", "aria-label": label, ...attributes });
    input.addEventListener("input", () => change(Number(input.value)));
    return { whole: make("label", { class: "slider" }, make("span", { text: label }), input, value), input, value };
  };

  // A label, a bar and a number on one line; `share` from -1 to 1.
  const meter = (label, share, number, remark = null) => {
    const fill = make("span", { class: share < 0 ? "fill below" : "fill" });
    fill.style.width = `${Math.min(Math.abs(share), 1) * 100}%`;
    return make(
      "div", { class: "meter" },
      make("span", { class: "label", text: label }),
      make("span", { class: "number", text: number }),
      make("span", { class: "track" }, fill),
      ...(remark ? [make("span", { class: "remark", text: remark })] : []),
    );
  };

  // White space and characters without a shape, made visible; but emoji and many scripts need their joiners and marks.
  const JOINERS = "\u00ad\u200c\u200d\u200e\u200f";
  const visible = (token) => {
    const shown = token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (item) =>
      JOINERS.includes(item) ? item : "�");
    if (shown.trim() === "") return "␣".repeat(Math.max(shown.length, 1));
    return [...shown].every((item) => JOINERS.includes(item)) ? "�" : shown;
  };

  // Replace what is in an element; the control that has the focus there is told by its place, and has it again.
  const refill = (parent, ...children) => {
    const controls = () => [...parent.querySelectorAll("button, select")];
    const index = controls().indexOf(document.activeElement);
    parent.replaceChildren(...children);
    controls()[index]?.focus({ preventScroll: true });
  };

  return { make, refill, byId, named, choice, press, slider, meter, visible };
})();
