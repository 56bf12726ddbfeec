"""Speech that is written frame by frame: frames are grouped by the letter, and each letter is explained."""

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.errors import InputError
from attnx.pipeline.requests import PAUSE, Letter, letters_of, words_of
from tests.sound_zoo import BODY, SEAMLESS, audio, samples_extractor

BLANK, LETTERS = 0, "-ab|"


def head_logits(written):
    """One row a frame; an upper-case letter is surer."""
    rows = torch.zeros(len(written), len(LETTERS))
    for place, letter in enumerate(written):
        rows[place, LETTERS.index(letter.lower())] = 2.0 if letter.isupper() else 1.0
    return rows


def test_frames_are_grouped_by_the_written_letter():
    found = letters_of(head_logits("-aA-a|bB--"), BLANK)
    assert [(one.token, one.start, one.end) for one in found] == [(1, 1, 4), (1, 4, 5), (3, 5, 6), (2, 6, 10)]
    assert [one.surest for one in found] == [2, 4, 5, 7]


def test_letters_are_grouped_to_words_by_what_stands_between():
    letters = letters_of(head_logits("-ab-|--ba-|"), BLANK)
    assert [(own[0].start, own[-1].silent) for own in words_of(letters, LETTERS.index("|"))] == [(1, 3), (7, 9)]
    assert words_of([], 3) == []


def test_nothing_written_is_no_letter():
    assert letters_of(head_logits("---"), BLANK) == []
    assert letters_of(head_logits("a"), BLANK) == [Letter(1, 0, 1, 0, 1)]


class Both:
    """An extractor with names for the letters."""

    word_delimiter_token_id = LETTERS.index("|")

    def __init__(self):
        self.feature_extractor = samples_extractor()
        self.tokenizer = self

    def convert_ids_to_tokens(self, ids):
        return LETTERS[ids] if isinstance(ids, int) else [LETTERS[one] for one in ids]

    def decode(self, ids, **_):
        return "".join(LETTERS[one] for one in ids)


@pytest.fixture(scope="module")
def writer():
    """Writes what it hears at each position, and nothing mixes positions: `a` at two of them, else nothing."""
    torch.manual_seed(0)
    looks = {"num_conv_pos_embeddings": 15, "num_conv_pos_embedding_groups": 2, "vocab_size": 4, "pad_token_id": BLANK}
    config = hf.Wav2Vec2Config(**BODY, **SEAMLESS, **looks, feat_extract_norm="layer", do_stable_layer_norm=True)
    made = hf.Wav2Vec2ForCTC(config).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "original0" in name or ("pos_conv" in name and "bias" in name) or "attention.out_proj" in name:
                parameter.zero_()
    samples = audio()
    with torch.no_grad():
        given = samples_extractor()(samples, sampling_rate=16_000, return_tensors="pt")
        states = made.wav2vec2(**given).last_hidden_state[0]
        # A head that tells two stretches from all others.
        wanted = torch.full((len(states),), -1.0)
        wanted[10:12] = 1
        way = torch.linalg.lstsq(torch.cat([states, torch.ones(len(states), 1)], 1), wanted[:, None]).solution[:, 0]
        made.lm_head.weight.zero_()
        made.lm_head.weight[1] = way[:-1]
        made.lm_head.bias.zero_()
        made.lm_head.bias[1] = way[-1]
    return made, samples


def test_each_letter_is_explained_where_it_is_written(writer):
    made, samples = writer
    found = attnx.explain(made, Both(), samples, position="all", methods="rollout", references="lrp")
    assert len(found) >= 1
    for e in found:
        assert e.prediction.label == "a"
        assert e.position in (10, 11)
        # Nothing else is read: the letter is from its own stretch.
        scores = np.abs(e["lrp"])
        assert scores.argmax() == e.position
        assert np.delete(scores, e.position).max() < 1e-5
        assert [one.text for one in e.by_span("lrp")] == ["a"] * len(e.spans)


def test_a_written_word_has_its_time_and_what_its_letters_have(writer):
    made, samples = writer
    e = attnx.explain(made, Both(), samples, position="all", methods="rollout", references="lrp")[0]
    before, word, behind = e.words
    assert (before.text, behind.text) == (PAUSE, PAUSE)
    assert set(word.text) == {"a"}
    assert word.positions[0] == 10
    assert e.positions.when(word.positions) == (e.positions[10].time[0], e.positions[word.positions[-1]].time[1])
    (best,) = e.top(1, "lrp", content_only=True)
    assert best.text == word.text
    assert best.score == pytest.approx(float(e.scores("lrp")[list(word.positions)].sum()))
    assert len(e.time_segments) == len(e.positions)
    start, end = e.positions.when(word.positions)
    assert f"{start:7.3f} to {end:7.3f} {word.text}" in str(e)


def test_written_words_stand_under_the_wave_and_on_the_page(writer):
    made, samples = writer
    e = attnx.explain(made, Both(), samples, position="all", methods="rollout", references=())[0]
    assert e.words[1].text in [one.get_text() for one in e.plot().axes[0].texts]
    assert e.words[1].text in attnx.to_html(e)


def test_silence_that_writes_nothing_says_so(writer):
    made, samples = writer
    with torch.no_grad():
        kept = made.lm_head.bias.clone()
        made.lm_head.bias[0] = 1e4
    try:
        with pytest.raises(InputError, match="writes nothing"):
            attnx.explain(made, Both(), samples, position="all", methods="rollout", references=())
    finally:
        with torch.no_grad():
            made.lm_head.bias.copy_(kept)
