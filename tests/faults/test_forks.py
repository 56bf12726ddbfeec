"""A child process that is forked while a thread explains finds its locks free and the model as it was."""

import copy
import os
import signal
import threading
import time

import pytest
import torch

import attnx
from attnx.capturing import untouched
from attnx.capturing.untouched import Borrowed
from attnx.inputs import text
from attnx.methods.flow import machine_code
from attnx.methods.registry import METHODS
from tests import zoo

pytestmark = pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="there is no fork here")


def in_a_child(check, seconds=30.0):
    """Whether `check` is true in a forked process; one that hangs is ended."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    for _ in range(int(seconds / 0.01)):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


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
        "methods": METHODS._lock,
    }


@pytest.mark.parametrize("name", list(locks()))
def test_a_lock_that_another_thread_holds_is_free_in_a_child(name):
    with Elsewhere(locks()[name]):
        assert in_a_child(lambda: locks()[name].acquire(timeout=5))


def test_what_another_thread_borrowed_is_back_in_a_child():
    model = copy.deepcopy(zoo.classifier()).train()
    with Elsewhere(Borrowed([(module, "training", False) for module in model.modules()])):
        assert not model.training
        assert in_a_child(lambda: model.training and not untouched._loans)
        assert not model.training
    assert model.training


def test_what_the_forking_thread_borrowed_stays_borrowed_in_a_child():
    model = copy.deepcopy(zoo.classifier()).train()

    def check():
        return not model.training and len(untouched._loans) == 1

    with Borrowed([(model, "training", False)]):
        assert in_a_child(check)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_of_a_process_that_explains_in_a_thread_explain_too():
    model, tokenizer = copy.deepcopy(zoo.classifier()).train(), zoo.wordpiece_tokenizer()
    ended = threading.Event()

    def explain_on():
        while not ended.is_set():
            attnx.explain(model, tokenizer, "a witty film")

    def explains():
        torch.set_num_threads(1)
        attnx.explain(model, tokenizer, "a dull movie")
        return model.training

    attnx.explain(model, tokenizer, "a witty film")
    thread = threading.Thread(target=explain_on)
    thread.start()
    try:
        assert all(in_a_child(explains) for _ in range(8))
    finally:
        ended.set()
        thread.join()
