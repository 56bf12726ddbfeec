"""A data set: the rates are counted right, and a stopped run goes on where it was, with nothing mixed in."""

import json
import sys

import numpy as np
import pytest
import transformers as hf

from attnx.errors import AttnxError, ChoiceError, FileFormatError, InputError
from attnx.probes.pronouns import run as pronoun_run
from attnx.probes.pronouns.data_file import read
from attnx.probes.pronouns.run import run
from attnx.probes.pronouns.sentence import Sentence
from attnx.results.pronouns import Probe
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
    probes = {line.pop("sentence"): Probe.from_dict({**line, "provenance": {}}) for line in lines}
    hits = [probes[index].drawn_from("flow")[2] == SENTENCES[index].answer for index in (0, 1, 2, 4)]
    assert report.right.sentences == 4
    assert report.right.left_out == 1
    assert report.right.methods["flow"][2].mean == pytest.approx(np.mean(hits))
    assert report.implied.left_out == 2
    verdicts = [probes[index].verdicts("raw")[0] == "consistent" for index in (0, 2, 3)]
    assert report.implied.methods["raw"][0].mean == pytest.approx(np.mean(verdicts))
    assert sum(report.predicted.values()) == 5
    decided = [probes[index].verdicts("value_path") == ("consistent",) for index in (0, 2, 3)]
    assert report.implied.references["value_path"].mean == pytest.approx(np.mean(decided))
    assert "value_path" in report.to_text()


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


def test_the_fingerprint_is_of_the_weights():
    assert pronoun_run._fingerprint(zoo.masked_lm()) != pronoun_run._fingerprint(other_model())


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


@pytest.mark.slow
def test_on_the_shared_checkpoint_the_value_path_points_at_the_name_whose_pronoun_is_predicted(assets):
    folder = assets / "models" / "minilm-mlm"
    model = hf.AutoModelForMaskedLM.from_pretrained(folder).float().eval()
    sentences = [
        Sentence(text.format(*order), order, ("her", "his"), {"her": woman, "his": man})
        for woman, man in [("Mary", "John"), ("Anna", "Peter"), ("Susan", "Paul"), ("Laura", "James")]
        for order in [(woman, man), (man, woman)]
        for text in ("{} met {} at [MASK] office", "{} gave {} the key to [MASK] house")
    ]
    report = run(model, hf.AutoTokenizer.from_pretrained(folder), sentences, methods=("rollout",))
    assert report.implied.references["value_path"].mean == 1.0


def test_two_runs_of_one_file_are_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    with pronoun_run.opened_alone(path), pytest.raises(InputError, match="another run is writing"):
        go(path)
    assert path.read_bytes() == b""
    go(path)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 6


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda line: {**line, "sentence": 5}, "sentence 5, the data has 0 to 4"),
        (lambda line: {**line, "sentence": -1}, "sentence -1, the data has 0 to 4"),
        (lambda line: {**line, "sentence": 0.5}, "damaged"),
        (lambda line: {**line, "mask": float("inf")}, "damaged"),
        (lambda line: {**line, "mask": 1}, "has a line already"),
        (lambda line: {**line, "relevance": {"raw": [[float("nan")] * 2] * 3}}, "damaged"),
        (lambda line: {**line, "relevance": {"raw": [[1.0]]}}, "damaged"),
    ],
)
def test_lines_that_cannot_be_of_the_data_are_refused(tmp_path, change, reason):
    path = tmp_path / "x.jsonl"
    go(path)
    before = path.read_text(encoding="utf-8").splitlines()
    line = json.dumps(change(json.loads(before[1])))
    path.write_text("\n".join([*before, line]) + "\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=reason):
        go(path)


def test_a_number_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    go(path)
    path.write_text(path.read_text(encoding="utf-8").replace('"sentence": 0', '"sentence": 1e999'), encoding="utf-8")
    with pytest.raises(FileFormatError, match="damaged"):
        go(path)
