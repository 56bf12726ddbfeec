"use strict";
// The image of a prompt, or the waveform of the audio, under the scores of one generated token.
attnx.generationImage = (() => {
  const { byId, make } = attnx.elements;
  const { most } = attnx.numbers;
  const [STRENGTH, MOST] = [0.85, 1600];
  let shown = null;
  let sheet = null;

  const build = (picture) => {
    sheet = make("canvas", { role: "img", "aria-label": `The ${picture.audio ? "audio" : "image"}, and the parts that the generated token is attributed to` });
    const smaller = Math.min(1, MOST / Math.max(...picture.size));
    [sheet.width, sheet.height] = picture.size.map((side) => Math.max(1, Math.round(side * smaller)));
    byId("generation-image").classList.toggle("audio", Boolean(picture.audio));
    byId("generation-image").replaceChildren(make("img", { src: picture.url, alt: "" }), sheet);
    byId("generation-player").replaceChildren(
      ...(picture.player ? [make("audio", { src: picture.player, controls: "" })] : []));
  };

  return {
    draw(picture, scores) {
      byId("generation-image").hidden = !picture;
      byId("generation-player").hidden = !picture?.player;
      if (!picture) return;
      if (shown !== picture) build(picture);
      shown = picture;
      const { hot, lines } = attnx.colours.theme();
      const { boxes } = picture;
      const top = most(boxes.map((box, position) => (box && position < scores.length ? Math.abs(scores[position]) : 0)));
      const [across, down] = [sheet.width / picture.size[0], sheet.height / picture.size[1]];
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
