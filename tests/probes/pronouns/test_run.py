"""A data set: the rates are counted right, and a stopped run goes on where it was, with nothing mixed in."""

import json
import sys

import numpy as np
import pytest
import transformers as hf

from attnx.errors import AttnxError, ChoiceError, FileFormatError, InputError
from attnx.probes.pronouns import Probe, Report, Sentence, read, results, run
from attnx.probes.pronouns.candidates import Candidate
from attnx.probes.pronouns.rates import Rates
from tests import zoo

IMPLIES = {"his": "author", "her": "Sara"}
SENTENCES = [
    Sentence("The author talked to Sara about [MASK] book", ("author", "Sara"), ("his", "her"), IMPLIES, "Sara"),
    Sentence("Sara said [MASK] was witty, the author said", ("Sara", "author"), ("she", "he"), {}, "Sara"),
    Sentence("the author said [MASK] film was bad, Sara", ("author", "Sara"), ("his", "her"), IMPLIES, "author"),
    Sentence("Sara said the film of the author was about [MASK] book", ("Sara", "author"), ("his", "her"), IMPLIES),
    Sentence("the author said hello to Sara and [MASK] movie", ("author", "Sara"), ("his", "her"), {}, "author"),
]


def go(output=None, sentences=SENTENCES, model=None, **options):
    return run(model or zoo.masked_lm(), zoo.wordpiece_tokenizer(), sentences, output=output, batch_size=2, **options)


def test_every_sentence_has_a_line_and_the_report_is_made_of_them(tmp_path):
    report = go(tmp_path / "x.jsonl")
    head, *lines = map(json.loads, (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines())
    assert head["kind"] == "attnx pronoun probes"
    assert sorted(line["sentence"] for line in lines) == [0, 1, 2, 3, 4]
    probes = {line["sentence"]: Probe.from_dict({**line, "provenance": {}}) for line in lines}
    hits = [probes[index].drawn_from("flow")[2] == SENTENCES[index].answer for index in (0, 1, 2, 4)]
    assert report.right.sentences == 4
    assert report.right.left_out == 1
    assert report.right.methods["flow"][2].mean == pytest.approx(np.mean(hits))
    assert report.implied.left_out == 2
    verdicts = [probes[index].verdicts("raw")[0] == "consistent" for index in (0, 2, 3)]
    assert report.implied.methods["raw"][0].mean == pytest.approx(np.mean(verdicts))
    assert sum(report.predicted.values()) == 5


def counting(monkeypatch, fail_after=None):
    """How many sentences the model was asked, and a Ctrl-C after some batches."""
    asked = []
    module = sys.modules[run.__module__]
    ask = module.ask

    def counted(model, tokenizer, ready, **options):
        if fail_after is not None and len(asked) >= fail_after:
            raise KeyboardInterrupt
        asked.extend(one.sentence.text for one in ready)
        return ask(model, tokenizer, ready, **options)

    monkeypatch.setattr(module, "ask", counted)
    return asked


def test_a_stopped_run_goes_on_and_ends_with_the_same_report(tmp_path, monkeypatch):
    path = tmp_path / "x.jsonl"
    with monkeypatch.context() as patched:
        counting(patched, fail_after=2)
        with pytest.raises(KeyboardInterrupt):
            go(path)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3
    asked = counting(monkeypatch)
    report = go(path)
    assert len(asked) == 3
    assert report.to_json() == go().to_json()
    del asked[:]
    assert go(path).to_json() == report.to_json()
    assert asked == []


@pytest.mark.parametrize("cut", [1, 40, 10_000])
def test_a_cut_last_line_is_asked_again(tmp_path, monkeypatch, cut):
    path = tmp_path / "x.jsonl"
    report = go(path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(whole[: -min(cut, len(lines[-1]) - 1)])
    asked = counting(monkeypatch)
    assert go(path).to_json() == report.to_json()
    assert len(asked) == 1
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())


@pytest.mark.parametrize("kept", [0, 1, 25])
def test_a_cut_first_line_is_a_run_that_has_not_begun(tmp_path, kept):
    path = tmp_path / "x.jsonl"
    go(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    go(path)
    assert path.read_bytes() == whole


def other_model():
    model = hf.BertForMaskedLM(zoo.masked_lm().config).eval()
    model.load_state_dict(zoo.masked_lm().state_dict())
    model.bert.encoder.layer[2].output.dense.bias.data[0] += 1e-3
    return model


MIXED = {
    "model": ({"model": other_model}, "results of another model, which are not mixed"),
    "data": ({"sentences": lambda: SENTENCES[:4]}, "results of other data, which"),
    "answer": (
        {"sentences": lambda: [Sentence(SENTENCES[0].text, ("author", "Sara"), ("his", "her")), *SENTENCES[1:]]},
        "results of other data, which",
    ),
    "methods": ({"methods": lambda: ("raw",)}, "results of other methods"),
    "span": ({"span": lambda: "mean"}, "results of another span"),
}


@pytest.mark.parametrize("kind", MIXED)
def test_results_of_something_else_are_never_mixed(tmp_path, kind):
    path = tmp_path / "x.jsonl"
    go(path)
    before = path.read_bytes()
    options, message = MIXED[kind]
    with pytest.raises(InputError, match=message) as raised:
        go(path, **{name: value() for name, value in options.items()})
    assert "\n" not in str(raised.value)
    assert path.read_bytes() == before


FOREIGN = {
    "a text": b"my notes\nof yesterday\n",
    "a line": b"my notes",
    "other json": b'{"kind": "notes"}\n',
    "a list": b"[1, 2]\n",
    "another format": b'{"kind": "attnx pronoun probes", "format": 99}\n',
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_that_is_no_results_is_not_touched(tmp_path, kind):
    path = tmp_path / "x.jsonl"
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(FileFormatError, match="give another name"):
        go(path)
    assert path.read_bytes() == FOREIGN[kind]


@pytest.mark.parametrize("damage", [b"{}", b"junk", b'{"sentence": 1}', b"null"])
def test_a_damaged_line_in_the_middle_is_named(tmp_path, damage):
    path = tmp_path / "x.jsonl"
    go(path)
    lines = path.read_bytes().splitlines()
    lines[2] = damage
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(FileFormatError, match="line 3 is damaged"):
        go(path)


def test_a_bad_sentence_is_known_before_the_model_runs(tmp_path, monkeypatch):
    asked = counting(monkeypatch)
    bad = Sentence("no one talked about it", ("one", "it"), ("his", "her"), place="mine.csv, line 9")
    with pytest.raises(InputError, match=r"mine\.csv, line 9: the sentence has no mask"):
        go(tmp_path / "x.jsonl", [*SENTENCES, bad])
    assert asked == []
    assert not (tmp_path / "x.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"sentences": []}, InputError),
        ({"methods": ()}, InputError),
        ({"methods": "rolout"}, ChoiceError),
        ({"output": "no/such/folder/x.jsonl"}, InputError),
    ],
)
def test_what_cannot_be_run_is_said(options, error):
    with pytest.raises(error):
        go(**options)
    with pytest.raises(AttnxError):
        run(zoo.masked_lm(), zoo.wordpiece_tokenizer(), SENTENCES, batch_size=0)


def drawn(*most, mask=9, positions=((1,), (5,)), probabilities=None, implies=None):
    """A probe of one method whose layers draw from a, from b, or from both alike."""
    rows = {"a": [1.0, 0.5], "b": [0.5, 1.0], "-": [1.0, 1.0]}
    return Probe(
        text="",
        mask=mask,
        candidates=tuple(Candidate(name, places) for name, places in zip("ab", positions, strict=True)),
        probabilities=probabilities or {"he": 0.6, "she": 0.2},
        layers=tuple(range(1, len(most) + 1)),
        relevance={"flow": np.array([rows[one] for one in most])},
        implies={"he": "a", "she": "b"} if implies is None else implies,
    )


def test_rates_leave_ties_out_and_count_them():
    probes = [drawn("a", "-"), drawn("b", "-"), drawn("a", "b"), drawn("a", "a")]
    first, second = Rates.of("it", probes, ["a", "a", "a", None]).methods["flow"]
    assert (first.mean, first.count, first.undefined) == (pytest.approx(2 / 3), 3, 0)
    assert (second.mean, second.count, second.undefined) == (0.0, 1, 2)


def test_baselines_are_chance_the_nearest_the_longest_and_the_commonest_pronouns():
    probes = [
        drawn("a"),  # b is nearer, and "he" is predicted, which speaks for a
        drawn("a", positions=((1, 2), (3,)), probabilities={"he": 0.1, "she": 0.2}),
        drawn("a", mask=3, positions=((1,), (5, 6)), probabilities={"he": 0.3, "she": 0.2}),
    ]
    rates = Rates.of("it", probes, ["b", "b", "b"])
    assert rates.chance == 0.5
    nearest, longest, commonest = rates.baselines.values()
    assert (nearest.mean, nearest.undefined) == (1.0, 1)
    assert (longest.mean, longest.undefined) == (0.5, 1)
    assert commonest.mean == 0.0


def test_a_report_says_what_does_not_apply_and_draws_what_does():
    sentences = [Sentence("[MASK]", ("a", "b"), ("he", "she"), {}, "a")] * 3
    probes = [drawn("a", "-", implies={})] * 3
    report = Report.of(sentences, probes, zoo.masked_lm(), source="a test")
    text = report.text()
    assert "the right referent (3 sentences)" in text
    assert "implies (0 sentences, 3 left out)\n\nDoes not apply" in text
    assert ["2", "–", "3"] in [line.split() for line in text.splitlines()]
    assert "| 1 | 100.0% (100.0 to 100.0) | 0 |" in report.markdown()
    assert json.loads(report.to_json())["right"]["methods"]["flow"][1]["undefined"] == 3
    shares, ties = report.plot().axes
    assert "the right referent" in shares.get_title()
    assert [bar.get_height() for bar in ties.patches] == [0, 100]
    decided = Report.of(sentences, [drawn("a", "b")] * 3, zoo.masked_lm(), source="a test")
    assert len(decided.plot().axes) == 2  # both questions, and no ties beneath
    nothing = Report.of([Sentence("[MASK]", ("a", "b"), ("he", "she"))] * 3, probes, zoo.masked_lm(), source="a test")
    with pytest.raises(InputError, match="nothing to draw"):
        nothing.plot()


def test_the_prediction_itself_is_compared_with_the_answer():
    sentences = [Sentence("[MASK]", ("a", "b"), ("he", "she"), {}, answer) for answer in ("a", "b", None)]
    report = Report.of(sentences, [drawn("a")] * 3, zoo.masked_lm(), source="a test")
    assert (report.prediction.mean, report.prediction.undefined) == (0.5, 1)
    assert "The prediction implies the right referent in 50.0%" in report.text()


def test_the_fingerprint_is_of_the_weights():
    assert results._fingerprint(zoo.masked_lm()) != results._fingerprint(other_model())


@pytest.mark.slow
def test_winogender_on_the_shared_checkpoint_is_as_documented(assets):
    folder = assets / "models" / "minilm-mlm"
    model = hf.AutoModelForMaskedLM.from_pretrained(folder).float().eval()
    sentences = read(assets / "winogender" / "templates.tsv")[:40]
    report = run(model, hf.AutoTokenizer.from_pretrained(folder), sentences, methods=("raw", "flow"))
    assert report.sentences == report.implied.left_out == 40
    assert sum(report.predicted[one] for one in ("he", "his", "him") if one in report.predicted) > 30
    assert report.mass > 0.5
    low, high = report.right.methods["flow"][5].low, report.right.methods["flow"][5].high
    assert low < 0.5 < high
