from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from attnx.demo_models.verb_number import load
from attnx.errors import FileFormatError, InputError
from examples.training import verb_number as loop
from examples.training.verb_number import Recipe, evaluate, train
from tests.children import python

pytestmark = pytest.mark.slow


def weights(directory):
    return load_file(directory / "model.safetensors")


def assert_same_weights(one, other):
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture
def run(data, short, tiny):
    """`run(out, …)` trains the tiny model; keywords replace those settings."""

    def start(out, **settings):
        return train(data, out, **({"recipe": short, "config": tiny, "progress": False} | settings))

    return start


@pytest.fixture
def finished(run, tmp_path):
    run(tmp_path / "finished")
    return tmp_path / "finished"


def test_training_writes_a_model_that_loads_and_its_accuracy(run, data, tmp_path):
    found = run(tmp_path / "out")
    model, _ = load(tmp_path / "out")
    assert model.dtype == torch.float32
    assert not model.training
    assert [one.of for one in found] == ["natural.tsv", "numpred.test.2.tsv"]
    assert [one.total for one in found] == [40, 15]
    assert evaluate(tmp_path / "out", data) == found
    written = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert [one["right"] for one in written] == [one.right for one in found]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json", "evaluation.json", "training.json"}
    assert not names & {"state.safetensors", "opinions.safetensors"}


def test_a_model_is_tested_only_on_the_split_it_was_trained_with(finished, data, tmp_path):
    for files, seed in ((data[:1], 0), (data[::-1], 0), (data, 1)):
        with pytest.raises(InputError, match="was not trained with these files, this order and this seed"):
            evaluate(finished, files, seed=seed)
    assert [one.total for one in evaluate(finished, data[:1], whole=True)] == [160]


def test_the_same_seed_gives_the_same_weights_and_leaves_the_callers_random_state(run, finished, tmp_path):
    before = torch.get_rng_state()
    run(tmp_path / "again")
    assert torch.equal(torch.get_rng_state(), before)
    assert_same_weights(finished, tmp_path / "again")
    run(tmp_path / "other", seed=1)
    assert any(
        tensor.shape != weights(finished)[name].shape or not torch.equal(tensor, weights(finished)[name])
        for name, tensor in weights(tmp_path / "other").items()
    )


@pytest.mark.parametrize("stop_after", [3, 8, 13])
def test_an_interrupted_run_resumes_to_the_same_weights(run, finished, tmp_path, monkeypatch, stop_after):
    real, taken = loop._step, 0

    def interrupted(*arguments):
        nonlocal taken
        taken += 1
        if taken > stop_after:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(loop, "STEPS_BETWEEN_SAVES", 4)
    monkeypatch.setattr(loop, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out")
    monkeypatch.setattr(loop, "_step", real)
    run(tmp_path / "out", resume=True)
    assert_same_weights(finished, tmp_path / "out")


@pytest.mark.slow
def test_a_killed_process_resumes_to_the_same_weights(children, run, finished, data, short, tmp_path):
    out = tmp_path / "out"
    program = f"""
import json, sys, torch
from pathlib import Path
torch.set_num_threads({torch.get_num_threads()})  # sums depend on it in their last bits
from examples.training import verb_number as loop
from attnx.demo_models.verb_number import VerbNumberConfig
from examples.training.verb_number import Recipe, train
loop.STEPS_BETWEEN_SAVES = 1
recipe = Recipe(**json.loads({json.dumps(short.as_dict())!r}))
tiny = VerbNumberConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=40)
train([Path(name) for name in sys.argv[1:]], Path({str(out)!r}), recipe=recipe, config=tiny, progress=False)
"""
    process = children.start(python(program, *map(str, data)))
    children.wait_for(process, (out / "state.safetensors").exists)
    process.kill()
    process.wait()
    run(out, resume=True)
    assert_same_weights(finished, out)


def test_control_c_saves_the_step_that_it_comes_in(run, finished, tmp_path, monkeypatch):
    step, out = loop._step, tmp_path / "stopped"

    def interrupted(model, tokenizer, batch, state, recipe, total):
        answer = step(model, tokenizer, batch, state, recipe, total)
        if state.step == 5:
            signal.raise_signal(signal.SIGINT)
        return answer

    monkeypatch.setattr(loop, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(out)
    with safe_open(out / "state.safetensors", framework="pt") as state:
        assert state.metadata()["step"] == "5"
    monkeypatch.setattr(loop, "_step", step)
    run(out, resume=True)
    assert_same_weights(finished, out)


def test_resuming_a_finished_run_only_evaluates(run, finished, monkeypatch):
    monkeypatch.setattr(loop, "_step", None)
    assert run(finished, resume=True)


def test_a_directory_that_exists_is_refused(run, tmp_path):
    with pytest.raises(InputError, match="exists; choose another directory, or resume"):
        run(tmp_path)


def test_there_must_be_a_run_to_resume(run, tmp_path):
    with pytest.raises(InputError, match="holds no run to resume"):
        run(tmp_path, resume=True)


def test_a_run_resumes_only_with_its_own_settings_and_data(run, finished, data, short, tiny):
    with pytest.raises(InputError, match="begun with other recipe"):
        run(finished, resume=True, recipe=replace(short, batch=8))
    with pytest.raises(InputError, match="begun with other data_sha256"):
        train(data[:1], finished, recipe=short, config=tiny, resume=True, progress=False)


def test_a_damaged_state_is_an_error(run, finished):
    (finished / "evaluation.json").unlink()
    (finished / "state.safetensors").write_bytes(b"no tensors")
    with pytest.raises(FileFormatError, match="is not the state of this training"):
        run(finished, resume=True)


def test_a_sentence_longer_than_the_positions_is_an_error(run, tiny, tmp_path):
    tiny.max_position_embeddings = 8
    with pytest.raises(InputError, match="positions; delete or shorten it"):
        run(tmp_path / "out", config=tiny)
    assert not (tmp_path / "out").exists()


def test_the_bar_shows_loss_accuracy_and_development(run, tmp_path, capsys):
    run(tmp_path / "out", progress=True)
    captured = capsys.readouterr()
    assert "loss=" in captured.err
    assert "accuracy=" in captured.err
    assert "epoch 2: natural" in captured.out


@pytest.mark.slow
def test_a_model_learns_the_grammar(data, tmp_path):
    """Half a minute of a teacher-less run is too long here; a small model and easy sentences show that it learns."""
    from attnx.demo_models.verb_number import VerbNumberConfig

    recipe = Recipe(epochs=6, batch=32, learning_rate=3e-3, warmup_steps=20, generated=1500, dropout=0.0)
    config = VerbNumberConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=40)
    natural, _ = train(data, tmp_path / "out", recipe=recipe, config=config, progress=False)
    assert natural.share > 0.9


def test_a_body_becomes_a_teacher_and_the_teacher_a_student(run, data, body, tmp_path, short):
    teacher = tmp_path / "teacher"
    run(teacher, body=body, recipe=replace(short, word_dropout=0.0))
    run(tmp_path / "student", teacher=teacher)
    found = evaluate(teacher, data)
    assert [one.total for one in found] == [40, 15]
    model, tokenizer = load(tmp_path / "student")
    assert model(**tokenizer("the key to the cabinets", return_tensors="pt")).logits.shape == (1, 2)
    assert not (tmp_path / "student" / "opinions.safetensors").exists()


def test_a_finished_run_goes_on_with_a_new_schedule(run, finished, data, tmp_path, short):
    run(tmp_path / "more", start=finished, recipe=replace(short, dropout=0.3, epochs=1))
    model, _ = load(tmp_path / "more")
    assert model.config.residual_dropout == 0.3
    assert not torch.equal(weights(finished)["classifier.weight"], weights(tmp_path / "more")["classifier.weight"])


def test_an_earlier_model_of_another_split_is_refused(run, finished, tmp_path):
    with pytest.raises(InputError, match="was not trained with these files, this order and this seed"):
        run(tmp_path / "more", start=finished, seed=1)
    assert not (tmp_path / "more").exists()


def test_a_body_and_a_teacher_together_are_an_error(run, tmp_path):
    with pytest.raises(InputError, match="not both"):
        run(tmp_path / "out", body=tmp_path, teacher=tmp_path)


def test_a_body_must_be_a_saved_model(run, tmp_path):
    with pytest.raises(FileFormatError, match="is not a directory of a saved model"):
        run(tmp_path / "out", body=tmp_path)
    assert not (tmp_path / "out").exists()
