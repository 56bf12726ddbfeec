"""The caller's model is after a call what it was before, whatever happens in between."""

import copy
import gc
import itertools
import pickle
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial

import pytest
import torch
import transformers as hf

import attnx
from attnx.attribution import REFERENCES
from attnx.errors import AttnxError, CaptureError
from attnx.hooks import TemporaryPatch
from attnx.hooks.capture import capture, recording
from attnx.hooks.patching import _patches, _states
from tests import zoo

BACKENDS = ["observer", "interface"]


@pytest.fixture
def model():
    return copy.deepcopy(zoo.model("gpt2"))


def state(model):
    """Everything of a model that attnx promises to leave alone."""
    return {
        "training": [module.training for module in model.modules()],
        "config": model.config.to_dict() | {"attention": model.config._attn_implementation},
        "hooks": [
            (len(module._forward_hooks), len(module._forward_pre_hooks), len(module._backward_hooks))
            for module in model.modules()
        ],
        "attributes": [sorted(vars(module)) for module in model.modules()],
        "grads": [(parameter.requires_grad, parameter.grad) for parameter in model.parameters()],
        "weights": [(parameter.data_ptr(), parameter.dtype) for parameter in model.parameters()],
    }


def recording_blocks(model):
    return recording(model, extras=("values", "projections", "blocks"))


def output(model):
    with torch.no_grad():
        return model(**zoo.inputs("gpt2")).last_hidden_state


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_capture_leaves_no_trace(model, backend, train, gradients):
    expected = output(model)
    model.train(train)
    model.h[1].eval()
    next(model.parameters()).requires_grad_(False)
    before = state(model)
    capture(model, backend=backend, gradients=gradients, **zoo.inputs("gpt2"))
    assert state(model) == before
    assert torch.equal(output(model.eval()), expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("error", "told"), [(RuntimeError, CaptureError), (KeyboardInterrupt, KeyboardInterrupt)], ids=["error", "Ctrl-C"]
)
def test_an_exception_in_the_middle_leaves_no_trace(model, backend, error, told):
    def fail(*_):
        raise error

    model.train()
    handle = model.h[2].register_forward_pre_hook(fail)
    before = state(model)
    with pytest.raises(told):
        capture(model, backend=backend, **zoo.inputs("gpt2"))
    assert state(model) == before
    handle.remove()


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_threads_at_once_see_their_own_attention_and_leave_no_trace(model, backend):
    """The threads overlap on purpose: each waits inside its forward for the other to come in or go out."""
    model.train()
    before = state(model)
    inputs = {length: zoo.inputs("gpt2", length) for length in (5, 9)}
    alone = {length: capture(model, backend=backend, **inputs[length]).weights for length in inputs}
    meeting, first_is_out, seen, trouble = threading.Barrier(2, timeout=30), threading.Event(), {}, []
    met = set()

    def wait(_, args):
        length = args[0].shape[1]
        if length not in met:
            met.add(length)
            meeting.wait()
            if length == 9:
                first_is_out.wait(30)
                assert not any(module.training for module in model.modules())

    handle = model.h[1].register_forward_pre_hook(wait)

    def run(length):
        try:
            with recording(model, backend=backend) as recorder:
                model(**inputs[length])
            seen[length] = torch.stack([record.weights[0] for record in recorder.records])
        except Exception as error:
            trouble.append(error)
        finally:
            if length == 5:
                first_is_out.set()

    threads = [threading.Thread(target=run, args=(length,)) for length in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handle.remove()
    assert not trouble
    assert state(model) == before
    for length in inputs:
        torch.testing.assert_close(seen[length], alone[length])


@pytest.mark.parametrize("register", ["register_forward_pre_hook", "register_forward_hook"])
def test_a_forward_in_another_thread_outlasts_the_run_that_it_began_in(model, register):
    """The plain forward waits among the hooks of a block: torch has read which there are, and calls them afterwards."""
    expected, before = output(model), state(model)
    inside, run_is_over = threading.Event(), threading.Event()

    def wait(*_):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            run_is_over.wait(30)

    handle = getattr(model.h[1], register)(wait)
    with ThreadPoolExecutor(1) as pool:
        with recording_blocks(model) as recorder:
            beside = pool.submit(output, model)
            assert inside.wait(30)
            model(**zoo.inputs("gpt2"))
        run_is_over.set()
        assert torch.equal(beside.result(), expected)
    handle.remove()
    assert all(record.residual for record in recorder.records)
    assert state(model) == before


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_forward_in_another_thread_goes_on_as_it_began_when_a_run_begins(model, backend):
    """It has made its mask for the model's own kernel, which gets none where attention is causal."""
    expected = output(model)
    inside, run_has_begun = threading.Event(), threading.Event()

    def wait(*_):
        inside.set()
        run_has_begun.wait(30)

    handle = model.h[1].register_forward_pre_hook(wait)
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(output, model)
        assert inside.wait(30)
        with recording(model, backend=backend):
            run_has_begun.set()
            assert torch.equal(beside.result(), expected)
    handle.remove()


def test_forwards_beside_runs_that_begin_and_end_go_on_undisturbed(model):
    expected, before, interval = output(model), state(model), sys.getswitchinterval()
    over = threading.Event()

    def forward(context):
        while not over.is_set():
            with context():
                assert torch.equal(output(model), expected)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            beside = [pool.submit(forward, context) for context in (nullcontext, partial(recording_blocks, model))]
            for _ in range(150):
                with recording_blocks(model):
                    pass
            over.set()
            for each in beside:
                each.result()
    finally:
        over.set()
        sys.setswitchinterval(interval)
    assert state(model) == before


def test_a_compiled_module_is_called_plainly_and_can_be_called_at_any_time(model):
    """Torch reads the attribute twice in a call: whether it is None, and then to call it."""
    compiled_calls = []

    def compiled(*args, **kwargs):
        compiled_calls.append(1)
        return model.h[1]._call_impl(*args, **kwargs)

    model.h[1]._compiled_call_impl = compiled
    with recording(model) as recorder:
        assert callable(model.h[1]._compiled_call_impl)
        model(**zoo.inputs("gpt2"))
    assert len(recorder.records) == len(model.h)
    assert not compiled_calls
    assert model.h[1]._compiled_call_impl is compiled


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_that_is_made_during_a_run_is_a_model_of_its_own(model, copied):
    with recording_blocks(model):
        other = copied(model)
    expected = output(model)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    assert torch.equal(output(other), expected)


def test_dropout_does_not_leak_into_the_numbers(model):
    quiet = capture(model, **zoo.inputs("gpt2")).weights
    torch.testing.assert_close(capture(model.train(), **zoo.inputs("gpt2")).weights, quiet)


def test_the_random_state_is_left_alone(model):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    capture(model.train(), **zoo.inputs("gpt2"))
    assert torch.equal(torch.rand(2), expected)


def test_an_open_key_value_cache_is_not_made():
    model, seen = hf.LlamaModel(zoo.model("llama").config).eval(), []
    model.register_forward_hook(lambda *args: seen.append(args[-1].past_key_values))
    capture(model, **zoo.inputs("llama"))
    assert seen[0] is None


def test_control_c_while_a_loan_is_returned_does_not_keep_it():
    class Owner:
        interrupts = 3

        @property
        def mode(self):
            return self._mode

        @mode.setter
        def mode(self, value):
            self._mode = value
            if value == "own" and Owner.interrupts:
                Owner.interrupts -= 1
                raise KeyboardInterrupt

    owners = [Owner() for _ in range(3)]
    for owner in owners:
        owner._mode = "own"
    with pytest.raises(KeyboardInterrupt), TemporaryPatch([(owner, "mode", "lent") for owner in owners]):
        pass
    assert [owner.mode for owner in owners] == ["own"] * 3
    assert not _patches


def test_modules_that_a_model_makes_meanwhile_get_its_mode():
    config = hf.BigBirdConfig(vocab_size=zoo.VOCABULARY, **zoo.WIDTH)
    model = hf.BigBirdModel(config).train()
    capture(model, **zoo.inputs("bert"))
    assert all(module.training for module in model.modules())


class Remembering(type(zoo.causal_lm())):
    """As RecurrentGemma does, it keeps a state in its modules; and a cache, and a module that it makes for a text."""

    state, cached, fails = None, 0, False

    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **options):
        embedded = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        self.state = embedded * 1
        self.cached = self.state.shape[1]
        self.register_buffer("positions", torch.arange(self.cached))
        self.made = torch.nn.Identity()
        if self.fails:
            raise ValueError("it fails")
        return super().forward(attention_mask=attention_mask, inputs_embeds=embedded, **options)


def held(model):
    return {name: getattr(model, name, None) for name in ("state", "cached", "positions", "made")}


@pytest.mark.parametrize("before", [None, "the book said"])
@pytest.mark.parametrize("reference", list(REFERENCES))
def test_what_a_run_leaves_in_the_modules_is_as_it_was(reference, before):
    model, tokenizer = Remembering(zoo.causal_lm().config).eval(), zoo.bytelevel_tokenizer()
    if before is not None:
        with torch.no_grad():
            model(**tokenizer(before, return_tensors="pt"))
    state, names = held(model), set(vars(model))
    attnx.explain(model, tokenizer, "the key to the cabinets", references=reference)
    assert all(held(model)[name] is value for name, value in state.items())
    assert set(vars(model)) == names
    copy.deepcopy(model)
    model.fails = True
    with pytest.raises(AttnxError, match="it fails"):
        capture(model, **tokenizer("the key", return_tensors="pt"))
    assert all(held(model)[name] is value for name, value in state.items())


def test_the_last_of_two_threads_restores_what_the_first_found():
    model = Remembering(zoo.causal_lm().config).eval()
    model.state = first = torch.zeros(1)
    one, other = TemporaryPatch((), model=model), TemporaryPatch((), model=model)
    with one:
        model.state = torch.ones(1)
        other.__enter__()
    model.state = torch.ones(1)
    other.__exit__(None, None, None)
    assert model.state is first
    assert not _states


def test_a_state_is_restored_while_another_thread_makes_one(model):
    interval, over = sys.getswitchinterval(), threading.Event()
    vars(model).update({f"cache {number}": number for number in range(3000)})  # enough for threads to take turns

    def forwards():
        for number in itertools.count():
            if over.is_set():
                break
            vars(model)[f"cache of length {number % 7}"] = number
            vars(model).pop(f"cache of length {(number + 3) % 7}", None)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(forwards)
            try:
                for _ in range(100):
                    with TemporaryPatch((), model=model):
                        pass
            finally:
                over.set()
            beside.result()
    finally:
        sys.setswitchinterval(interval)


def test_a_graph_is_freed_without_the_garbage_collector(model):
    gc.collect()
    gc.disable()
    try:
        traced = weakref.ref(capture(model, gradients=True, **zoo.inputs("gpt2")).differentiable[0])
        assert traced() is None
    finally:
        gc.enable()


def test_a_loan_is_returned_by_the_last_borrower():
    class Owner:
        mode = "own"

    owner = Owner()
    first, second = TemporaryPatch([(owner, "mode", "lent")]), TemporaryPatch([(owner, "mode", "lent")])
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert owner.mode == "lent"
    second.__exit__(None, None, None)
    assert owner.mode == "own"
    assert not vars(owner)
