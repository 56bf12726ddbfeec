"""A data set: the rates are counted right, and a stopped run goes on where it was, with nothing mixed in."""

import json
import sys

import numpy as np
import pytest
import transformers as hf

from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.pronouns import Sentence, read, run
from attnx.pronouns.result import Probe
from attnx.runs import RunDir, parts
from attnx.runs.folder import existing_manifest
from attnx.runs.task import stored_rows
from tests import zoo

IMPLIES = {"his": "author", "her": "Sara"}
SENTENCES = [
    Sentence("The author talked to Sara about [MASK] book", ("author", "Sara"), ("his", "her"), IMPLIES, "Sara"),
    Sentence("Sara said [MASK] was witty, the author said", ("Sara", "author"), ("she", "he"), {}, "Sara"),
    Sentence("the author said [MASK] film was bad, Sara", ("author", "Sara"), ("his", "her"), IMPLIES, "author"),
    Sentence("Sara said the film of the author was about [MASK] book", ("Sara", "author"), ("his", "her"), IMPLIES),
    Sentence("the author said hello to Sara and [MASK] movie", ("author", "Sara"), ("his", "her"), {}, "author"),
]


def go(run_dir=None, sentences=SENTENCES, model=None, **options):
    options = {"batch_size": 2, "shard_rows": 2, **options}
    return run(model or zoo.masked_lm(), zoo.wordpiece_tokenizer(), sentences, run_dir=run_dir, **options)


def rows(folder):
    run_dir = RunDir.of(folder)
    return list(stored_rows(run_dir, existing_manifest(run_dir), parts(run_dir).values()))


def contents(folder):
    return {one.name: one.read_bytes() for one in folder.glob("part-*")}


def test_every_sentence_has_a_row_and_the_report_is_made_of_them(tmp_path):
    report = go(tmp_path / "x")
    kept = rows(tmp_path / "x")
    assert [one["row"] for one in kept] == [0, 1, 2, 3, 4]
    probes = [Probe.from_dict({**json.loads(one["probe"]), "provenance": {}}) for one in kept]
    hits = [probes[index].top_candidates("flow")[2] == SENTENCES[index].answer for index in (0, 1, 2, 4)]
    assert (report.count, report.applicable("right"), report.applicable("implied")) == (5, 4, 3)
    assert report.cell("flow", "right 3").mean == pytest.approx(np.mean(hits))
    verdicts = [probes[index].verdicts("raw")[0] == "consistent" for index in (0, 2, 3)]
    assert report.cell("raw", "implied 1").mean == pytest.approx(np.mean(verdicts))
    assert sum(report.predicted.values()) == 5
    decided = [probes[index].verdicts("lrp") == ("consistent",) for index in (0, 2, 3)]
    assert report.cell("lrp", "implied 1").mean == pytest.approx(np.mean(decided))
    assert "lrp" in report.to_text()


def counting(monkeypatch, fail_after=None):
    """How many sentences the model was asked, and a Ctrl-C after some of them."""
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
    with monkeypatch.context() as patched:
        counting(patched, fail_after=2)  # those of the first part
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path / "x")
    assert len(contents(tmp_path / "x")) == 1
    asked = counting(monkeypatch)
    report = go(tmp_path / "x")
    assert asked == [one.text for one in SENTENCES[2:]]
    assert report.to_json() == go().to_json()
    del asked[:]
    assert go(tmp_path / "x").to_json() == report.to_json()
    assert asked == []


def other_model():
    model = hf.BertForMaskedLM(zoo.masked_lm().config).eval()
    model.load_state_dict(zoo.masked_lm().state_dict())
    model.bert.encoder.layer[2].output.dense.bias.data[0] += 1e-3
    return model


MIXED = {
    "model": ({"model": other_model}, "another run: other weights"),
    "data": ({"sentences": lambda: SENTENCES[:4]}, "it was begun over 5 rows, and the data has 4"),
    "answer": (
        {"sentences": lambda: [Sentence(SENTENCES[0].text, ("author", "Sara"), ("his", "her")), *SENTENCES[1:]]},
        "a run over other data: rows 0 to 1",
    ),
    "methods": ({"methods": lambda: ("raw",)}, "methods was raw, rollout, flow and is raw"),
    "span": ({"span": lambda: "mean"}, "span was sum and is mean"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MIXED)
def test_results_of_something_else_are_never_mixed(tmp_path, kind):
    go(tmp_path / "x")
    before = contents(tmp_path / "x")
    options, message = MIXED[kind]
    with pytest.raises(InputError, match=message) as raised:
        go(tmp_path / "x", **{name: value() for name, value in options.items()})
    assert "\n" not in str(raised.value)
    assert contents(tmp_path / "x") == before


BAD = Sentence("no one talked about it", ("one", "it"), ("his", "her"), place="mine.csv, line 9")


def test_a_bad_sentence_in_memory_is_known_before_the_model_runs(monkeypatch):
    asked = counting(monkeypatch)
    with pytest.raises(InputError, match=r"mine\.csv, line 9: the sentence has no mask"):
        go(sentences=[*SENTENCES, BAD])
    assert asked == []


def test_a_bad_sentence_of_a_run_is_left_out_and_noted(tmp_path):
    report = go(tmp_path / "x", [*SENTENCES, BAD])
    ((note, count),) = (one for one in report.notes.items() if one[0].startswith("left out"))
    assert note.startswith("left out: mine.csv, line 9: the sentence has no mask")
    assert (count, report.count) == (1, 5)


def test_where_a_sentence_was_read_does_not_make_it_another(tmp_path, monkeypatch):
    go(tmp_path / "x", [Sentence(**{**vars(one), "place": "a.csv, line 2"}) for one in SENTENCES])
    asked = counting(monkeypatch)
    go(tmp_path / "x")
    assert asked == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"sentences": []}, InputError),
        ({"methods": ()}, InputError),
        ({"methods": "rolout"}, ChoiceError),
        ({"engine": "ray"}, ChoiceError),
        ({"enigne": "ray"}, InputError),
    ],
)
def test_what_cannot_be_run_is_said(options, error):
    with pytest.raises(error):
        go(**options)
    with pytest.raises(AttnxError):
        run(zoo.masked_lm(), zoo.wordpiece_tokenizer(), SENTENCES, batch_size=0)


@pytest.mark.slow
def test_winogender_on_the_shared_checkpoint_is_as_documented(assets):
    folder = assets / "models" / "minilm-mlm"
    model = hf.AutoModelForMaskedLM.from_pretrained(folder).float().eval()
    sentences = read(assets / "winogender" / "templates.tsv")[:40]
    report = run(model, hf.AutoTokenizer.from_pretrained(folder), sentences, methods=("raw", "flow"))
    assert (report.count, report.applicable("implied")) == (40, 0)
    assert sum(report.predicted[one] for one in ("he", "his", "him") if one in report.predicted) > 30
    assert report.mass > 0.5
    cell = report.cell("flow", "right 6")
    assert cell.low < 0.5 < cell.high


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
    assert report.cell("lrp", "implied 1").mean == 1.0
