"use strict";
// The image of a prompt, or the waveform of the audio, under the scores of one generated token.
attnx.generationImage = (() => {
  const { byId, make } = attnx.elements;
  const { most } = attnx.numbers;
  const [STRENGTH, MOST] = [0.85, 1600];
  let shown = null;
  let sheet = null;

  const build = (image) => {
    sheet = make("canvas", { role: "img", "aria-label": `The ${image.audio ? "audio" : "image"}, and the parts that the generated token is attributed to` });
    const smaller = Math.min(1, MOST / Math.max(...image.size));
    [sheet.width, sheet.height] = image.size.map((side) => Math.max(1, Math.round(side * smaller)));
    byId("generation-image").classList.toggle("audio", Boolean(image.audio));
    byId("generation-image").replaceChildren(make("img", { src: image.url, alt: "" }), sheet);
    byId("generation-player").replaceChildren(
      ...(image.player ? [make("audio", { src: image.player, controls: "" })] : []));
  };

  return {
    draw(image, scores) {
      byId("generation-image").hidden = !image;
      byId("generation-player").hidden = !image?.player;
      if (!image) return;
      if (shown !== image) build(image);
      shown = image;
      const { hot, lines } = attnx.colours.theme();
      const { boxes } = image;
      const top = most(boxes.map((box, position) => (box && position < scores.length ? Math.abs(scores[position]) : 0)));
      const [across, down] = [sheet.width / image.size[0], sheet.height / image.size[1]];
      const pen = sheet.getContext("2d");
      pen.clearRect(0, 0, sheet.width, sheet.height);
      boxes.forEach((box, position) => {
        if (!box || !(top > 0) || !(position < scores.length)) return;
        const [left, upper, right, lower] = box;
        const [x, y] = [Math.round(left * across), Math.round(upper * down)];
        pen.globalAlpha = STRENGTH * (Math.abs(scores[position]) / top);
        pen.fillStyle = scores[position] < 0 ? lines : hot;
        pen.fillRect(x, y, Math.round(right * across) - x, Math.round(lower * down) - y);
      });
    },
  };
})();
