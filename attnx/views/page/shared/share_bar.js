"use strict";
// A bar in two parts: how much is from the prompt or the source, and how much from what was written before.
attnx.shareBar = (front, scores, split = false) => {
  const { make } = attnx.elements;
  const sizes = [...scores].map(Math.abs);
  const whole = sizes.reduce((sum, one) => sum + one, 0);
  if (whole === 0) return [];
  const share = sizes.slice(0, front.length).reduce((sum, one) => sum + one, 0) / whole;
  const fill = make("span", { class: "fill" });
  fill.style.width = `${(share * 100).toFixed(2)}%`;
  const said = (name, part) => make("span", { class: "share", text: `${(part * 100).toFixed(0)} % ${name}` });
  return [
    said(`from the ${front.name}`, share),
    make("span", { class: "track two", role: "img", "aria-label": `${(share * 100).toFixed(0)} % from the ${front.name}`, "data-share": share }, fill),
    said(`from what was written before${split ? " (by the share of the residual, whatever the text)" : ""}`, 1 - share),
  ];
};
