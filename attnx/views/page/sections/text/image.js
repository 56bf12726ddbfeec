"use strict";
// An image under the scores of its patches, or the waveform of audio under those of its segments.
attnx.image = (() => {
  const { byId, make } = attnx.elements;
  const { row, most } = attnx.numbers;
  const STRENGTH = 0.85;
  const MOST = 1600; // pixels on the longer side of the sheet: that of a large photo would fill the memory
  let shown = null;
  let sheet = null;
  let cursor = null;

  const build = ({ text: { image } }) => {
    sheet = make("canvas", { tabindex: "0", role: "img", "aria-label": "The image; arrow keys move over its patches" });
    const smaller = Math.min(1, MOST / Math.max(...image.size));
    [sheet.width, sheet.height] = image.size.map((side) => Math.max(1, Math.round(side * smaller)));
    sheet.addEventListener("mousemove", (event) => move(under(event)));
    sheet.addEventListener("mouseleave", () => move(null));
    sheet.addEventListener("blur", () => move(null));
    sheet.addEventListener("click", (event) => explain(under(event)));
    sheet.addEventListener("keydown", keyed);
    byId("image").classList.toggle("audio", Boolean(image.audio));
    byId("image").replaceChildren(make("img", { src: image.url, alt: "" }), sheet);
    byId("player").replaceChildren(...(image.player ? [make("audio", { src: image.player, controls: "" })] : []));
  };

  const explain = (position) => {
    if (position !== null) attnx.explainRow([position]);
  };

  const under = (event) => {
    const box = sheet.getBoundingClientRect();
    const [width, height] = shown.text.image.size;
    const x = ((event.clientX - box.left) / box.width) * width;
    const y = ((event.clientY - box.top) / box.height) * height;
    // The last: an image token and its patch share one box, and the patch comes later.
    const position = shown.text.image.boxes.findLastIndex((item) => item && x >= item[0] && x < item[2] && y >= item[1] && y < item[3]);
    return position < 0 ? null : position;
  };

  // The nearest patch in the direction of the key.
  const keyed = (event) => {
    if (event.key === "Enter") explain(cursor);
    const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const { boxes } = shown.text.image;
    const first = boxes.findIndex(Boolean);
    const [left, top, right, bottom] = boxes[cursor ?? first];
    const x = (left + right) / 2 + step[0] * (right - left);
    const y = (top + bottom) / 2 + step[1] * (bottom - top);
    const next = boxes.findLastIndex((item) => item && x >= item[0] && x < item[2] && y >= item[1] && y < item[3]);
    move(cursor === null ? first : next < 0 ? cursor : next);
  };

  const move = (position) => {
    if (position === cursor) return;
    cursor = position;
    paint(attnx.state);
    if (position === null) attnx.text.rest();
    else attnx.text.tell(position);
  };

  // Left, top, width and height on the sheet, in whole pixels: neighbours that share one would show a seam.
  const onSheet = ([left, top, right, bottom]) => {
    const [across, down] = [sheet.width / shown.text.image.size[0], sheet.height / shown.text.image.size[1]];
    const [x, y] = [Math.round(left * across), Math.round(top * down)];
    return [x, y, Math.round(right * across) - x, Math.round(bottom * down) - y];
  };

  const frame = (pen, box, colour) => {
    pen.globalAlpha = 1;
    pen.strokeStyle = colour;
    pen.lineWidth = Math.max(2, sheet.width / 200);
    pen.strokeRect(...onSheet(box));
  };

  const paint = (state) => {
    const { boxes } = state.result.text.image;
    const scores = row(state);
    const top = most(boxes.map((box, position) => (box ? Math.abs(scores[position]) : 0)));
    const { hot, lines, card } = attnx.colours.theme();
    const pen = sheet.getContext("2d");
    pen.clearRect(0, 0, sheet.width, sheet.height);
    boxes.forEach((box, position) => {
      if (!box || !(top > 0)) return;
      pen.globalAlpha = STRENGTH * (Math.abs(scores[position]) / top);
      pen.fillStyle = scores[position] < 0 ? lines : hot;
      pen.fillRect(...onSheet(box));
    });
    for (const position of state.rows ?? [state.result.position]) if (boxes[position]) frame(pen, boxes[position], card);
    if (cursor !== null) frame(pen, boxes[cursor], card);
  };

  return {
    draw(state) {
      byId("image").hidden = !state.result.text.image;
      byId("player").hidden = !state.result.text.image?.player;
      if (!state.result.text.image) return;
      if (shown !== state.result) {
        shown = state.result;
        cursor = null;
        build(shown);
      }
      paint(state);
    },
  };
})();
