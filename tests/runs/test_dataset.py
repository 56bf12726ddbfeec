"""A whole data set: what comes out is what `explain` gives, a stopped run goes on, and what is wrong is said."""

import copy
import errno
import json
import os
import re
import resource
import shutil
import sys
from pathlib import Path

import pandas
import pytest
import torch
from PIL import Image

import attnx
from attnx.demo_models import dates, picture_question
from attnx.demo_models import picture_question as picture_checkpoint
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.runs import folder, runner
from tests import sound_zoo, verb_number_zoo, zoo

TEXTS = ["the key", "the keys to the cabinet", "keys near the pilots", "the author", "the key", "a pilot near the keys"]


def explained(folder, data=TEXTS, **options):
    options = {"methods": ("raw", "rollout"), "shard_rows": 4, "progress": False, **options}
    return attnx.explain_dataset(verb_number_zoo.model(), verb_number_zoo.tokenizer(), data, run_dir=folder, **options)


def same(one, other):
    return one.to_table().equals(other.to_table())


def test_rows_are_the_explanations_of_their_shard(tmp_path):
    run = explained(tmp_path / "run", shard_rows=100)
    once = list(dict.fromkeys(TEXTS))
    options = {"methods": ("raw", "rollout"), "layer": 3}
    found = attnx.explain(verb_number_zoo.model(), verb_number_zoo.tokenizer(), once, **options)
    expected = dict(zip(once, found, strict=True))
    assert [one.text for one in run] == TEXTS
    assert all(one == expected[one.text] for one in run)
    assert run[1] == expected[TEXTS[1]]
    assert run[-1] == expected[TEXTS[-1]]


@pytest.mark.parametrize(
    ("model", "tokenizer", "options"),
    [
        (zoo.classifier, zoo.wordpiece_tokenizer, {}),
        (zoo.classifier, zoo.wordpiece_tokenizer, {"target": "NEGATIVE", "layer": "all"}),
        (zoo.masked_lm, zoo.wordpiece_tokenizer, {"methods": "flow"}),
        (zoo.causal_lm, zoo.bytelevel_tokenizer, {"layer": "all", "prepend_token": "begin"}),
        (zoo.causal_lm, zoo.bytelevel_tokenizer, {"spans": "sentences", "methods": "rollout"}),
    ],
)
def test_nothing_of_an_explanation_is_lost(tmp_path, model, tokenizer, options):
    texts = ["a witty film", "the [MASK] was a witty and a dull film", ("a film", "witty")]
    texts = texts[:2] if model is zoo.causal_lm else texts
    made, reads = model(), tokenizer()
    if options.get("target"):
        options["target"] = made.config.id2label[0]
    run = attnx.explain_dataset(made, reads, texts, run_dir=tmp_path / "run", progress=False, shard_rows=8, **options)
    layer = {"layer": None if options.pop("layer", None) == "all" else made.config.num_hidden_layers}
    assert list(run) == attnx.explain(made, reads, texts, **layer, **options)


def _of_two_streams():
    model, tokenizer = dates.load_demo()
    return model, tokenizer, ["on friday the third of march 1998", "2011 may 9"], {"target_text": "1998"}


def _heard():
    return sound_zoo.model("ast"), sound_zoo.extractor("ast"), [sound_zoo.audio(), sound_zoo.audio(0.4)], {}


def _heard_with_its_rate():
    sounds = [{"array": sound_zoo.audio(), "sampling_rate": 16_000}]
    return sound_zoo.model("wav2vec2"), sound_zoo.extractor("wav2vec2"), sounds, {}


def _pictured():
    asked = picture_question.generate(2, seed=3, enlarged=4)
    rows = [{"image": one.image, "text": f"<image> {one.question}"} for one in asked]
    return *picture_checkpoint.load_demo(), rows, {}


@pytest.mark.slow
@pytest.mark.parametrize("made", [_of_two_streams, _heard, _heard_with_its_rate, _pictured])
def test_nothing_is_lost_of_streams_sounds_and_pictures_with_a_text(tmp_path, made):
    model, reads, data, more = made()
    options = {"methods": ("raw", "rollout"), "references": "lrp", "layer": 2, **more}
    run = attnx.explain_dataset(model, reads, data, run_dir=tmp_path / "run", progress=False, shard_rows=8, **options)
    assert list(run) == attnx.explain(model, reads, data, **options)
    again = attnx.explain_dataset(
        model, reads, made()[2], run_dir=tmp_path / "run", progress=False, shard_rows=8, **options
    )
    assert again.complete  # pictures and sounds are told by what is in them, and not by where they are held


def test_the_model_and_the_threads_are_left_as_they_were(tmp_path):
    model = verb_number_zoo.model()
    before = {name: one.clone() for name, one in model.state_dict().items()}, torch.get_num_threads(), model.training
    explained(tmp_path / "run")
    assert all(torch.equal(one, before[0][name]) for name, one in model.state_dict().items())
    assert (torch.get_num_threads(), model.training) == before[1:]


def test_bad_rows_say_why_and_the_others_are_there(tmp_path):
    data = ["the key", "", 7, None, "the key " * 2000, "the keys"]
    run = explained(tmp_path / "run", data)
    errors = {one.row: one.error for one in run.failed}
    assert list(errors) == [1, 2, 3, 4]
    assert "empty" in errors[1]
    assert "cannot explain int" in errors[2]
    assert "nothing in this row" in errors[3]
    assert "truncate=True" in errors[4]
    assert [one.text for one in run] == ["the key", "the keys"]
    with pytest.raises(InputError, match="row 1 could not be explained: the text is empty"):
        run[1]
    frame = run.to_frame()
    assert list(frame.loc[frame.error.isna(), "row"]) == [0, 5]


def test_a_row_that_breaks_the_model_is_one_row(tmp_path, monkeypatch):
    model = verb_number_zoo.model()
    forward = type(model).forward

    def breaks(self, input_ids, **rest):
        if input_ids.shape[-1] == max(lengths):
            raise RuntimeError("no kernel for this")
        return forward(self, input_ids, **rest)

    lengths = [len(verb_number_zoo.tokenizer()(text)["input_ids"]) for text in [*TEXTS, TEXTS[1] + " near the author"]]
    monkeypatch.setattr(type(model), "forward", breaks)
    run = explained(tmp_path / "run", [TEXTS[1] + " near the author", *TEXTS], references=())
    assert [one.row for one in run.failed] == [0]
    assert "RuntimeError: no kernel for this" in run.failed[0].error


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_rows_for_which_memory_is_short_are_run_alone_then_later_and_never_fail(tmp_path, monkeypatch, capfd, error):
    model = verb_number_zoo.model()
    forward = type(model).forward
    most = 6  # tokens that there is memory for

    def allocates(self, input_ids, **rest):
        if input_ids.numel() > most:
            raise error
        return forward(self, input_ids, **rest)

    monkeypatch.setattr(type(model), "forward", allocates)
    run = explained(tmp_path / "run", references=())
    assert [one["row"] for one in run.rows(["row"])] == [0, 2, 3, 4]
    assert (run.failed, run.complete) == ([], False)
    assert "2 of 6 rows are not in" in capfd.readouterr().err
    with pytest.raises(InputError, match="row 1 was not run yet: 4 of 6 rows are there"):
        run[1]
    with pytest.raises(AttnxError, match="there is no result yet: memory was short for some rows"):
        attnx.compare(
            model,
            verb_number_zoo.tokenizer(),
            TEXTS,
            methods="raw",
            against="gradient",
            run_dir=tmp_path / "compared",
        )
    most = 10**6
    run = explained(tmp_path / "run", references=())
    assert [one.text for one in run] == TEXTS
    assert (run.failed, run.complete) == ([], True)
    assert same(run, explained(tmp_path / "whole", references=()))


@pytest.mark.slow
def test_identical_texts_are_explained_once_a_shard(tmp_path, monkeypatch):
    from attnx.pipeline import explain as call

    asked = []
    real = call.explain_prepared
    monkeypatch.setattr(
        call, "explain_prepared", lambda *given, **how: asked.append(len(given[2])) or real(*given, **how)
    )
    run = explained(tmp_path / "run", ["the key"] * 100_000, shard_rows=20_000)
    assert len(run) == 100_000
    assert sum(asked) == 5  # one a shard
    assert run[99_999] == run[0]


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    whole = explained(tmp_path / "whole")
    explained(tmp_path / "run")
    parts = sorted(Path(tmp_path / "run").glob("*.parquet"))
    parts[0].unlink()  # as if a run had been killed before it was written
    (tmp_path / "run" / f"{folder.TEMPORARY}half").write_bytes(b"PAR1")
    stays = parts[1].stat().st_mtime_ns
    resumed = explained(tmp_path / "run")
    assert same(resumed, whole)
    assert parts[1].stat().st_mtime_ns == stays
    assert not (tmp_path / "run" / f"{folder.TEMPORARY}half").exists()
    assert {one.name: one.read_bytes() for one in parts} == {
        one.name: one.read_bytes() for one in (tmp_path / "whole").glob("*.parquet")
    }


def test_a_shard_is_what_is_done_in_a_while_and_a_resumed_run_keeps_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "SECONDS", 1e-9)
    slow = explained(tmp_path / "run", shard_rows=None)
    assert (slow.manifest.shard_rows, len(slow.parts)) == (1, 6)
    (tmp_path / "run" / slow.parts[2].name).unlink()
    monkeypatch.setattr(runner, "SECONDS", 1e9)
    assert same(explained(tmp_path / "run", shard_rows=None), slow)
    quick = explained(tmp_path / "quick", iter(TEXTS), shard_rows=None)
    assert (quick.manifest.shard_rows, [part.rows for part in quick.parts]) == (1024, [1, 1, 2, 2])


def test_a_first_shard_without_a_good_row_does_not_refuse_the_run(tmp_path):
    run = explained(tmp_path / "run", [None, "", "", 7, *TEXTS], shard_rows=2)
    assert [one.row for one in run.failed] == [0, 1, 2, 3]
    assert [one.text for one in run] == TEXTS


@pytest.mark.parametrize("kind", [list, iter])
def test_more_rows_than_a_complete_run_has_are_an_error(tmp_path, kind):
    run = explained(tmp_path / "run", kind(TEXTS), shard_rows=2)
    with pytest.raises(InputError, match=r"over 6 rows, and the data has (more|8)"):
        explained(tmp_path / "run", kind([*TEXTS, "the pilot", "a key"]), shard_rows=2)
    assert len(attnx.Run.load(run.run_dir.name)) == 6


def test_a_generator_and_a_list_give_the_same_run(tmp_path):
    assert same(explained(tmp_path / "one", (one for one in TEXTS)), explained(tmp_path / "two"))
    explained(tmp_path / "one", (one for one in TEXTS))  # and go on in each other's folder


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"methods": "raw"}, "methods was raw, rollout and is raw"),
        ({"layer": 1}, "layer was -1 and is 1"),
        ({"shard_rows": 5}, "shard_rows was 4 and is 5"),
        ({"data": ["the keys", *TEXTS[1:]]}, "over other data: rows 0 to 3 are not those"),
        ({"data": [*TEXTS, "the pilot"]}, "it was begun over 6 rows, and the data has 7"),
        ({"data": TEXTS[:4]}, "it was begun over 6 rows, and the data has 4"),
        ({"data": iter([*TEXTS, "the pilot"])}, r"over other data: rows 4 to 6 .* \(2 rows then, 3 now\)"),
        ({"data": iter(TEXTS[:4])}, "over more data: 6 rows in 2 shards, there are 1 now"),
    ],
)
def test_another_run_in_the_same_folder_is_an_error_that_names_the_difference(tmp_path, changed, said):
    explained(tmp_path / "run")
    with pytest.raises(InputError, match=said):
        explained(tmp_path / "run", **changed)


def test_another_model_in_the_same_folder(tmp_path, monkeypatch):
    explained(tmp_path / "run")
    model = copy.deepcopy(verb_number_zoo.model())
    with torch.no_grad():
        next(model.parameters()).add_(1e-3)
    monkeypatch.setattr(verb_number_zoo, "model", lambda: model)
    with pytest.raises(InputError, match=r"holds another run: other weights. Give another folder"):
        explained(tmp_path / "run")


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.docx").write_text("dear")
    with pytest.raises(InputError, match=r"holds no run of attnx, but thesis.docx; give a new or an empty folder"):
        explained(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.docx"]
    with pytest.raises(InputError, match="is a file; give the name of a folder"):
        explained(tmp_path / "thesis.docx")


def test_two_runs_in_one_folder(tmp_path):
    def while_running():
        yield "the key"
        with pytest.raises(InputError, match="another run is writing to"):
            explained(tmp_path / "run")
        yield "the keys"

    assert len(explained(tmp_path / "run", while_running())) == 2


def test_a_full_disk_in_the_middle(tmp_path, monkeypatch):
    """The system refuses to write beyond a size, as where no space is left: the run says so, and goes on later."""
    whole = explained(tmp_path / "whole")
    written = []
    real = folder.RunDir._write_local

    def limited(folder, other, name, content):
        if name.startswith("part-"):
            written.append(name)
        if len(written) == 2:
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
            try:
                return real(folder, other, name, content)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        return real(folder, other, name, content)

    monkeypatch.setattr(folder.RunDir, "_write_local", staticmethod(limited))
    with pytest.raises(
        AttnxError, match=r"cannot write part-.*: File too large; fix that, and the same command resumes"
    ):
        explained(tmp_path / "run")
    assert not list((tmp_path / "run").glob(f"{folder.TEMPORARY}*"))
    assert len(list((tmp_path / "run").glob("*.parquet"))) == 1
    monkeypatch.undo()
    assert same(explained(tmp_path / "run"), whole)


def test_no_permission_to_write(tmp_path, monkeypatch):
    def refuse(*given, **how):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "makedirs", refuse)  # root, as whom tests may run, is refused nothing
    with pytest.raises(AttnxError, match=r"cannot make .*: Permission denied; fix that"):
        explained(tmp_path / "run")


def test_images_in_a_folder_with_one_that_cannot_be_read(tmp_path):
    model, processor = _vision()
    folder = tmp_path / "images"
    (folder / "red").mkdir(parents=True)
    for number in range(3):
        Image.new("RGB", (20, 30), (200, number, 0)).save(folder / "red" / f"{number}.png")
    (folder / "red" / "1.png").write_bytes(b"no image")
    options = {"methods": ("raw", "rollout"), "references": ()}
    kept = {"run_dir": tmp_path / "run", "shard_rows": 3, "progress": False}
    run = attnx.explain_dataset(model, processor, folder, **options, **kept)
    assert [(one.row, one.id) for one in run.failed] == [(1, "red/1.png")]
    assert "no image that can be read" in run.failed[0].error
    paths = [folder / "red" / "0.png", folder / "red" / "2.png"]
    layer = model.config.num_hidden_layers
    assert list(run) == attnx.explain(model, processor, paths, layer=layer, **options)
    assert list(run.to_frame(["gold"]).gold) == ["red"] * 3


def test_an_image_that_may_not_be_read_is_one_row(tmp_path, monkeypatch):
    """Root, as whom tests may run, is refused nothing: the refusal is played."""
    model, processor = _vision()
    for number in range(2):
        Image.new("RGB", (20, 30), (200, number, 0)).save(tmp_path / f"{number}.png")
    real_open, real_read = Image.open, Path.read_bytes

    def refused(real):
        def read(path, *given, **how):
            if str(path).endswith("1.png"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return real(path, *given, **how)

        return read

    monkeypatch.setattr(Image, "open", refused(real_open))
    monkeypatch.setattr(Path, "read_bytes", refused(real_read))
    how = {"methods": "raw", "references": (), "progress": False}
    run = attnx.explain_dataset(model, processor, tmp_path, run_dir=tmp_path / "run", **how)
    assert [(one.row, "Permission denied" in one.error) for one in run.failed] == [(1, True)]
    assert len(list(run)) == 1


def _vision():
    import transformers

    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=16
    )
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    return transformers.ViTForImageClassification(config).eval(), processor


def test_where_no_row_works_the_reason_is_told_before_the_run(tmp_path):
    with pytest.raises(InputError, match="none of the first 3 rows can be explained; row 0: cannot explain int"):
        explained(tmp_path / "run", [1, 2, 3])
    assert not (tmp_path / "run" / "_attnx.json").exists()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"run_dir": ""}, InputError, "say where the run is kept"),
        ({"methods": "rolout"}, ChoiceError, "did you mean 'rollout'"),
        ({"all_queries": True}, ChoiceError, "one score a position"),
        ({"head": "all"}, ChoiceError, "one score a position"),
        ({"position": [1, 2]}, ChoiceError, "the same for all rows"),
        ({"engine": "spark"}, ChoiceError, "engine 'spark' is not known"),
        ({"engine": 3}, ChoiceError, r"an object with run\(…\); found 3"),
        ({"workers": 2}, ChoiceError, "engine='ray' has more"),
        ({"workers": 1.5}, ChoiceError, "workers must be a whole number, found 1.5"),
        ({"shard_rows": 0}, InputError, "shard_rows must be at least 1"),
        ({"colunm": "text"}, AttnxError, "argument of explain 'colunm' is not known"),
    ],
)
def test_wrong_arguments(tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        explained(**{"folder": tmp_path / "run", **({"folder": ""} if "run_dir" in options else options)})


def test_models_by_pipeline_and_by_path(tmp_path):
    import transformers

    model, tokenizer = zoo.deep(zoo.classifier()), zoo.wordpiece_tokenizer()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    options = {"methods": "rollout", "references": (), "progress": False}
    texts = ["a witty film", "a film"]
    by_pipeline = attnx.explain_dataset(pipeline, data=texts, run_dir=tmp_path / "one", **options)
    by_path = attnx.explain_dataset(str(tmp_path / "model"), texts, run_dir=tmp_path / "two", **options)
    assert by_path.to_table(["rollout"]).equals(by_pipeline.to_table(["rollout"]))


def test_another_address_than_a_path(tmp_path):
    whole = explained(tmp_path / "whole")
    remote = explained(f"local://{tmp_path}/run")
    assert same(remote, whole)
    explained(f"local://{tmp_path}/run")
    assert same(attnx.Run.load(tmp_path / "run"), whole)


def test_an_address_that_nothing_serves(tmp_path):
    with pytest.raises(AttnxError, match=r"cannot read nowhere://x: .*nowhere"):
        explained("nowhere://x")


def test_the_manifest_tells_what_made_the_numbers(tmp_path):
    explained(tmp_path / "run")
    told = json.loads((tmp_path / "run" / "_attnx.json").read_text())
    assert told["complete"]
    assert told["rows"] == 6
    assert told["fingerprint"]["settings"] == {"layer": -1, "methods": ["raw", "rollout"]}
    assert set(told["fingerprint"]["versions"]) >= {"attnx", "torch", "transformers"}
    assert len(told["fingerprint"]["model"]) == len(told["data"]) == 64


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits as on POSIX systems")
def test_the_estimate_is_said(tmp_path, capfd):
    explained(tmp_path / "run", progress=True)
    said = capfd.readouterr().err
    assert re.search(r"attnx: 6 rows in about .* seconds, by 4 of them \(", said)
    assert "MB for a shard of 4 rows" in said


def test_labels_that_are_no_utf8_or_have_thousands_of_digits_do_not_end_a_run(tmp_path):
    content = (
        b"text,label,id\nthe key,singular,a\nthe keys,caf\xe9,b\nthe pilot,singular,\xe9\nkeys," + b"9" * 5000 + b",d\n"
    )
    (tmp_path / "a.csv").write_bytes(content)
    run = explained(tmp_path / "run", tmp_path / "a.csv")
    assert [(one.row, one.error) for one in run.failed] == [
        (1, r"its label is not valid UTF-8: caf\udce9"),
        (2, r"its id is not valid UTF-8: \udce9"),
    ]
    assert [one.text for one in run] == ["the key", "keys"]
    assert run.to_frame(["right"]).right[3] is None


def test_pandas_labels_are_held_against_the_answers(tmp_path):
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    texts = ["a witty film", "a film"]
    label = attnx.explain(model, tokenizer, texts[0]).prediction
    other = next(name for name in label.labels if name != label.label)
    frame = pandas.DataFrame({"text": [texts[0]] * 4, "label": [label.label.lower(), other, str(label.index), "?"]})
    run = attnx.explain_dataset(model, tokenizer, frame, run_dir=tmp_path / "run", methods="raw", progress=False)
    assert list(run.to_frame(["right"]).right) == [True, False, True, None]
    asked = {"methods": "raw", "progress": False, "target": other}
    of_target = attnx.explain_dataset(model, tokenizer, frame, run_dir=tmp_path / "target", **asked)
    assert list(of_target.to_frame(["right"]).right) == [True, False, True, None]
    assert [(group.label, group.probability) for group in of_target.summary().groups] == [
        (label.label, pytest.approx(label.probability))
    ]
    shutil.rmtree(tmp_path / "run")
