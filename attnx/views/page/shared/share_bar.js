"use strict";
// A bar in two parts: the shares of the prompt or source, and of the output generated before.
attnx.shareBar = (front, scores, split = false) => {
  const { make } = attnx.elements;
  const sizes = [...scores].map(Math.abs);
  const whole = sizes.reduce((sum, item) => sum + item, 0);
  if (whole === 0) return [];
  const share = sizes.slice(0, front.length).reduce((sum, item) => sum + item, 0) / whole;
  const fill = make("span", { class: "fill" });
  fill.style.width = `${(share * 100).toFixed(2)}%`;
  const label = (name, part) => make("span", { class: "share", text: `${(part * 100).toFixed(0)} % ${name}` });
  return [
    label(`from the ${front.name}`, share),
    make("span", { class: "track two", role: "img", "aria-label": `${(share * 100).toFixed(0)} % from the ${front.name}`, "data-share": share }, fill),
    label(`from the earlier output${split ? " (set by the residual alone, for any text)" : ""}`, 1 - share),
  ];
};
