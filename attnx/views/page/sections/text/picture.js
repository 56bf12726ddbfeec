"use strict";
// A picture under the scores of its patches, where an image was explained, or the wave of a sound under those of its
// stretches of time. The layer slider works on it, too.
attnx.picture = (() => {
  const { byId, make } = attnx.elements;
  const { row, most } = attnx.numbers;
  const STRENGTH = 0.85;
  const MOST = 1600; // pixels on the longer side of the sheet: that of a large photo would fill the memory
  let shown = null;
  let sheet = null;
  let cursor = null;

  const build = ({ text: { picture } }) => {
    sheet = make("canvas", { tabindex: "0", role: "img", "aria-label": "The picture; arrow keys move over its patches" });
    const smaller = Math.min(1, MOST / Math.max(...picture.size));
    [sheet.width, sheet.height] = picture.size.map((side) => Math.max(1, Math.round(side * smaller)));
    sheet.addEventListener("mousemove", (event) => move(under(event)));
    sheet.addEventListener("mouseleave", () => move(null));
    sheet.addEventListener("blur", () => move(null));
    sheet.addEventListener("click", (event) => explain(under(event)));
    sheet.addEventListener("keydown", keyed);
    byId("picture").classList.toggle("sound", Boolean(picture.sound));
    byId("picture").replaceChildren(make("img", { src: picture.url, alt: "" }), sheet);
    byId("player").replaceChildren(...(picture.player ? [make("audio", { src: picture.player, controls: "" })] : []));
  };

  const explain = (place) => {
    if (place !== null) attnx.explainRow([place]);
  };

  const under = (event) => {
    const box = sheet.getBoundingClientRect();
    const [width, height] = shown.text.picture.size;
    const x = ((event.clientX - box.left) / box.width) * width;
    const y = ((event.clientY - box.top) / box.height) * height;
    // The last: an image token and its patch have one box, and the patch stands behind.
    const place = shown.text.picture.boxes.findLastIndex((one) => one && x >= one[0] && x < one[2] && y >= one[1] && y < one[3]);
    return place < 0 ? null : place;
  };

  // The nearest patch in the direction of the key.
  const keyed = (event) => {
    if (event.key === "Enter") explain(cursor);
    const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const { boxes } = shown.text.picture;
    const first = boxes.findIndex(Boolean);
    const [left, top, right, bottom] = boxes[cursor ?? first];
    const x = (left + right) / 2 + step[0] * (right - left);
    const y = (top + bottom) / 2 + step[1] * (bottom - top);
    const next = boxes.findLastIndex((one) => one && x >= one[0] && x < one[2] && y >= one[1] && y < one[3]);
    move(cursor === null ? first : next < 0 ? cursor : next);
  };

  const move = (place) => {
    if (place === cursor) return;
    cursor = place;
    paint(attnx.state);
    if (place === null) attnx.text.rest();
    else attnx.text.tell(place);
  };

  // Left, top, width and height on the sheet, in whole pixels: neighbours that share one would show a seam.
  const onSheet = ([left, top, right, bottom]) => {
    const [across, down] = [sheet.width / shown.text.picture.size[0], sheet.height / shown.text.picture.size[1]];
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
    const { boxes } = state.result.text.picture;
    const scores = row(state);
    const top = most(boxes.map((box, place) => (box ? Math.abs(scores[place]) : 0)));
    const { hot, lines, card } = attnx.colours.theme();
    const pen = sheet.getContext("2d");
    pen.clearRect(0, 0, sheet.width, sheet.height);
    boxes.forEach((box, place) => {
      if (!box || !(top > 0)) return;
      pen.globalAlpha = STRENGTH * (Math.abs(scores[place]) / top);
      pen.fillStyle = scores[place] < 0 ? lines : hot;
      pen.fillRect(...onSheet(box));
    });
    for (const place of state.rows ?? [state.result.position]) if (boxes[place]) frame(pen, boxes[place], card);
    if (cursor !== null) frame(pen, boxes[cursor], card);
  };

  return {
    draw(state) {
      byId("picture").hidden = !state.result.text.picture;
      byId("player").hidden = !state.result.text.picture?.player;
      if (!state.result.text.picture) return;
      if (shown !== state.result) {
        shown = state.result;
        cursor = null;
        build(shown);
      }
      paint(state);
    },
  };
})();
