"""A child process that is forked while a thread explains finds attnx's locks free and the model as it was."""

import copy
import faulthandler
import os
import threading

import pytest

import attnx
from attnx.adapters import text
from attnx.hooks import TemporaryPatch
from attnx.hooks import patching as untouched
from attnx.hooks.capture import recording
from attnx.methods import flow_compile as machine_code
from tests import zoo

pytestmark = pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="there is no fork here")


PATIENCE = 300
"""Seconds after which a child hangs: it says where, and ends. None needs one; a busy machine may need many."""


def in_a_child(check):
    """Whether `check` is true in a forked process."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        code = 2
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Elsewhere:
    """Another thread that stays inside a block until it is told to leave."""

    def __init__(self, block):
        self._block, self._inside, self._leave = block, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        with self._block:
            self._inside.set()
            self._leave.wait(60)

    def __enter__(self):
        self._thread.start()
        self._inside.wait()

    def __exit__(self, *_):
        self._leave.set()
        self._thread.join()


def locks():
    return {
        "loans": untouched._lock,
        "tokenizers": text._tokenizer_lock,
        "machine code": machine_code._LOCK,
    }


@pytest.mark.parametrize("name", list(locks()))
def test_a_lock_that_another_thread_holds_is_free_in_a_child(name):
    with Elsewhere(locks()[name]):
        assert in_a_child(lambda: locks()[name].acquire(timeout=5))


def test_what_another_thread_borrowed_is_back_in_a_child():
    model = copy.deepcopy(zoo.classifier()).train()
    with Elsewhere(TemporaryPatch([(module, "training", False) for module in model.modules()])):
        assert not model.training
        assert in_a_child(lambda: model.training and not untouched._patches)
        assert not model.training
    assert model.training


def test_modules_that_another_thread_observes_are_themselves_in_a_child():
    model = copy.deepcopy(zoo.classifier())
    with Elsewhere(recording(model, extras=("values", "projections", "blocks"))):
        assert zoo.observed(model)
        assert in_a_child(lambda: not zoo.observed(model))
    assert not zoo.observed(model)


def test_what_the_forking_thread_borrowed_stays_borrowed_in_a_child():
    model = copy.deepcopy(zoo.classifier()).train()

    def check():
        return not model.training and len(untouched._patches) == 1

    with TemporaryPatch([(model, "training", False)]):
        assert in_a_child(check)


class Paused:
    """A hook that halts one thread between two of torch's operations, until that thread may go on.

    Inside of one, torch holds locks that it does not free in a child: there a plain model hangs, too.
    """

    def __init__(self):
        self.thread, self.inside, self._leave = None, threading.Event(), threading.Event()

    def __call__(self, *_):
        if threading.current_thread() is self.thread:
            self.inside.set()
            self._leave.wait()

    def leave(self):
        self._leave.set()


@pytest.mark.parametrize("place", ["bert.embeddings", "bert.encoder.layer.1.attention", "classifier"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_of_a_process_that_explains_in_a_thread_explain_too(place):
    model, tokenizer = copy.deepcopy(zoo.classifier()).train(), zoo.wordpiece_tokenizer()
    paused = Paused()
    model.get_submodule(place).register_forward_pre_hook(paused)
    paused.thread = threading.Thread(target=attnx.explain, args=(model, tokenizer, "a witty film"))

    def explains():
        attnx.explain(model, tokenizer, "a dull movie")
        return model.training

    paused.thread.start()
    try:
        paused.inside.wait()
        assert not model.training
        assert in_a_child(explains)
    finally:
        paused.leave()
        paused.thread.join()
    assert model.training
