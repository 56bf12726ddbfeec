"use strict";
// Colours of the theme for canvases, and canvases that are sharp on every screen and follow their width.
attnx.colours = (() => {
  const named = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const mix = (from, to, share) => `rgb(${from.map((item, at) => Math.round(item + (to[at] - item) * share)).join(",")})`;

  const theme = () => {
    const colours = Object.fromEntries(
      ["ink", "muted", "line", "card", "cold", "hot", "lines", "on-hot"].map((name) => [name, named(name)]),
    );
    const [cold, hot, against] = [parts(colours.cold), parts(colours.hot), parts(colours.lines)];
    // From −1 to 1: opposing scores are blue.
    return { ...colours, heat: (share) => mix(cold, share < 0 ? against : hot, Math.min(1, Math.abs(share))) };
  };

  const font = (size) => `${size}px system-ui, sans-serif`;

  // Size a canvas to its card and return a context in CSS pixels.
  const sheet = (canvas, height) => {
    const across = width(canvas);
    canvas.width = Math.round(across * scale());
    canvas.height = Math.round(height * scale());
    canvas.style.width = `${across}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale(), scale());
    return { pen, width: across };
  };

  const width = (canvas) => {
    const card = canvas.parentElement;
    return Math.max(card.clientWidth - 2 * parseFloat(getComputedStyle(card).paddingLeft), 120);
  };

  // Paper is finer than a screen.
  const scale = () => (attnx.printing ? 3 : window.devicePixelRatio || 1);

  const clipped = (pen, text, room) => {
    if (pen.measureText(text).width <= room) return text;
    let short = text;
    while (short && pen.measureText(`${short}…`).width > room) short = short.slice(0, -1);
    return `${short}…`;
  };

  return { theme, font, sheet, width, scale, clipped };
})();
