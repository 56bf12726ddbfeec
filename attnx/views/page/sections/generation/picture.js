"use strict";
// The picture beside a text that was written, or the wave of the sound that it was written from, under what one written
// token drew from its parts.
attnx.writtenPicture = (() => {
  const { byId, make } = attnx.elements;
  const { most } = attnx.numbers;
  const [STRENGTH, MOST] = [0.85, 1600];
  let shown = null;
  let sheet = null;

  const build = (picture) => {
    sheet = make("canvas", { role: "img", "aria-label": `The ${picture.sound ? "sound" : "picture"}, and which parts of it the written token drew from` });
    const smaller = Math.min(1, MOST / Math.max(...picture.size));
    [sheet.width, sheet.height] = picture.size.map((side) => Math.max(1, Math.round(side * smaller)));
    byId("written-picture").classList.toggle("sound", Boolean(picture.sound));
    byId("written-picture").replaceChildren(make("img", { src: picture.url, alt: "" }), sheet);
    byId("written-player").replaceChildren(
      ...(picture.player ? [make("audio", { src: picture.player, controls: "" })] : []));
  };

  return {
    draw(picture, scores) {
      byId("written-picture").hidden = !picture;
      byId("written-player").hidden = !picture?.player;
      if (!picture) return;
      if (shown !== picture) build(picture);
      shown = picture;
      const { hot, lines } = attnx.colours.theme();
      const { boxes } = picture;
      const top = most(boxes.map((box, place) => (box && place < scores.length ? Math.abs(scores[place]) : 0)));
      const [across, down] = [sheet.width / picture.size[0], sheet.height / picture.size[1]];
      const pen = sheet.getContext("2d");
      pen.clearRect(0, 0, sheet.width, sheet.height);
      boxes.forEach((box, place) => {
        if (!box || !(top > 0) || !(place < scores.length)) return;
        const [left, upper, right, lower] = box;
        const [x, y] = [Math.round(left * across), Math.round(upper * down)];
        pen.globalAlpha = STRENGTH * (Math.abs(scores[place]) / top);
        pen.fillStyle = scores[place] < 0 ? lines : hot;
        pen.fillRect(x, y, Math.round(right * across) - x, Math.round(lower * down) - y);
      });
    },
  };
})();
