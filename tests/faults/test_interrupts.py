"""Ctrl-C leaves nothing behind and stays Ctrl-C, wherever it comes. The long form is `tests.faults.interrupts`."""

import ast
import dis
import signal
import sys
import threading
import weakref
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path

import pytest
import torch

import attnx
from attnx import _signals as interrupts
from attnx._signals import Uninterruptible, uninterrupted
from attnx.hooks import TemporaryPatch, eval_mode
from attnx.hooks.capture import recording
from attnx.pipeline import Call
from tests import zoo
from tests.faults import interrupts as script

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals as on Unix")

OURS = ("attnx/_signals.py", "hooks/patching.py", "hooks/forward.py", "hooks/attention_interface.py")
SWITCHING = (
    *("attribution/lrp.py", "linearize/run.py", "hooks/blocks.py", "hooks/batching.py"),
    *("torch/autograd/grad_mode.py", "torch/amp/autocast_mode.py"),
)
ROAD = tuple(
    str(path.relative_to(Path(attnx.__path__[0]).parent))
    for room in ("explaining", "running", "references", "results", "capturing", "attention", "answer")
    for path in Path(attnx.__path__[0], room).rglob("*.py")
)
LIBRARIES = ("contextlib.py", "torch/overrides.py", "torch/autograd/grad_mode.py", "torch/utils/_contextlib.py")
LOOKS = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD"}
"""Instructions after which Python looks for signals; it also does where a function begins."""

autocast = partial(torch.autocast, "cpu", dtype=torch.bfloat16)
AROUND = ["plain", "no_grad", "inference_mode", "autocast"]


@cache
def calls():
    return script.calls()


@pytest.fixture(autouse=True)
def untraced():
    """What measures coverage is set aside: an interrupt between its lock and its unlocking would stop all for ever."""
    before = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(before)


@pytest.fixture
def own_handler():
    """Under `nohup` Python leaves SIGINT ignored: the tests bring the usual handler along."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


class Look:
    """Sends SIGINT at the n-th moment at which Python looks for signals in some files, or only counts the moments."""

    def __init__(self, files, at=None):
        self.files, self.at, self.seen, self.last = files, at, 0, {}

    def trace(self, frame, event, _):
        if not frame.f_code.co_filename.endswith(self.files):
            return None
        frame.f_trace_opcodes = True
        if event == "call" or (event == "opcode" and self.last.get(frame) in LOOKS):
            self.seen += 1
            if self.seen == self.at:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        if event == "opcode":
            self.last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        return self.trace


def looked_at(call, files, at=None):
    look = Look(files, at)
    sys.settrace(look.trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return look.seen


def interrupted_at_moments(call, files, count):
    """Interrupt the call at so many moments, spread over all at which Python looks for signals in these files."""
    call()
    before = script.world()
    moments = looked_at(call, files)
    for at in range(1, moments + 1, 1 + moments // count):
        with script.finalisers_told() as swallowed:
            try:
                seen = looked_at(call, files, at)
                assert swallowed or seen < at, f"the interrupt at moment {at} was lost"  # a call may have fewer
            except KeyboardInterrupt as raised:
                kept = raised  # and with it the frames of everything that was left half-way
                assert script.changed(before) == [], at
                del kept
        assert script.changed(before) == [], at


@pytest.mark.slow
@pytest.mark.parametrize("files", [OURS, LIBRARIES, ("adapters/text.py",)], ids=["ours", "libraries", "text"])
@pytest.mark.parametrize("name", ["capture", "capture, interface", "explain", "explain, gradient"])
def test_an_interrupt_at_every_moment_leaves_no_trace(own_handler, name, files):
    interrupted_at_moments(calls()[name], files, 60)


@pytest.mark.slow
@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_an_interrupt_leaves_the_switches_of_the_caller_as_they_are(own_handler, around):
    """Paths and residuals switch gradients on or off, and leave inference mode, for a while."""
    with around():
        interrupted_at_moments(calls()["explain"], SWITCHING, 60)


@pytest.mark.slow
@pytest.mark.parametrize("around", [nullcontext, torch.no_grad, torch.inference_mode, autocast], ids=AROUND)
def test_an_interrupt_anywhere_on_the_road_leaves_no_trace(own_handler, around):
    with around():
        interrupted_at_moments(calls()["explain, texts"], ROAD, 40)


@pytest.mark.parametrize("around", [nullcontext, torch.no_grad, torch.inference_mode, autocast], ids=AROUND)
def test_a_loop_that_is_left_half_way_leaves_no_trace(around):
    """The generator stays alive, suspended between two batches."""
    encoder, words = zoo.classifier(), zoo.wordpiece_tokenizer()
    calls()
    for references in ({}, {"lrp": {}}, {"gradient": {}}):
        call = Call.of(encoder, words, ["the key", "a film", "the key to it"], references=references, batch_size=1)
        with around():
            before = script.world()
            training = [module.training for module in encoder.modules()]
            half_way = call.explanations()
            next(half_way)
            assert script.changed(before) == []
            assert [module.training for module in encoder.modules()] == training
            with pytest.raises(KeyboardInterrupt):
                half_way.throw(KeyboardInterrupt)
            assert script.changed(before) == []


def test_no_generator_yields_while_something_is_held():
    """One that is left half-way would hold it until it is collected; only files may wait for that."""
    kept = [
        f"{path.name}:{inner.lineno}"
        for path in Path(attnx.__path__[0]).rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and not _is_a_block(function)
        for block in ast.walk(function)
        if isinstance(block, ast.With) and not all(_opens_a_file(item.context_expr) for item in block.items)
        for inner in ast.walk(block)
        if isinstance(inner, (ast.Yield, ast.YieldFrom))
    ]
    assert kept == []


def _is_a_block(function):
    return any(getattr(one, "id", "") == "contextmanager" for one in function.decorator_list)


def _opens_a_file(expression):
    return any(word in ast.unparse(expression) for word in ("open(", "opened("))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["explain", "compare", "faithfulness", "explain_generation", "load_demo"])
def test_interrupts_of_a_timer_leave_no_trace_and_are_not_lost(name):
    found = script.interrupt(calls()[name], 10)
    assert (found.interrupts, found.traces, found.lost, found.turned) == (10, [], 0, [])


class Ringing(Uninterruptible[None]):
    """Signals come in the middle of its beginning and of its end."""

    def __init__(self, at, number=signal.SIGINT):
        self.at, self.number, self.held = at, number, False

    def _begin(self):
        self.held = True
        if self.at == "beginning":
            signal.raise_signal(self.number)

    def _end(self):
        if self.at == "end":
            signal.raise_signal(self.number)
        self.held = False


@pytest.mark.parametrize("at", ["beginning", "end"])
def test_a_signal_waits_for_the_beginning_and_the_end_and_then_reaches_its_own_handler(at):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(block.held))
    own = signal.getsignal(signal.SIGUSR1)
    try:
        with (block := Ringing(at, signal.SIGUSR1)):
            assert seen == ([True] if at == "beginning" else [])
        assert seen == [at == "beginning"]
        assert signal.getsignal(signal.SIGUSR1) is own
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("at", ["beginning", "end"])
def test_control_c_comes_out_when_everything_is_back(own_handler, at):
    block, inside = Ringing(at), []
    with pytest.raises(KeyboardInterrupt), block:
        inside.append(True)
    assert not block.held
    assert inside == ([] if at == "beginning" else [True])
    assert signal.getsignal(signal.SIGINT) is own_handler
    assert not interrupts._open
    assert not interrupts._deferred


def test_an_inner_block_hands_nothing_over_in_the_middle_of_an_outer_ones_end(own_handler):
    class Outer(Ringing):
        def _end(self):
            with Ringing("end"):
                pass
            self.held = False

    block = Outer("nowhere")
    with pytest.raises(KeyboardInterrupt), block:
        pass
    assert not block.held


def test_control_c_inside_the_block_comes_at_once(own_handler):
    reached = []
    with pytest.raises(KeyboardInterrupt), TemporaryPatch([]):
        reached += [signal.raise_signal(signal.SIGINT)]
    assert not reached


def test_a_handler_that_was_set_inside_the_block_stays(own_handler):
    def other(number, frame):
        """Another one."""

    with TemporaryPatch([]):
        signal.signal(signal.SIGINT, other)
    assert signal.getsignal(signal.SIGINT) is other


def test_a_thread_leaves_the_handlers_alone(own_handler):
    seen = []

    def run():
        with eval_mode(zoo.model("bert")):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [own_handler]


def test_a_signal_waits_for_work_that_is_not_to_be_interrupted(own_handler):
    done = []

    def work():
        signal.raise_signal(signal.SIGINT)
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(work)
    assert done == [True]


def test_modes_and_gradients_that_the_model_lost_are_back():
    model = zoo.model("bert")

    class Mode(torch.overrides.TorchFunctionMode):
        """The caller's own."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **kwargs or {})

    with Mode() as mine:
        with recording(model):
            torch.overrides._pop_mode()
            torch.overrides._pop_mode()
            torch.set_grad_enabled(True)
            torch.autocast_increment_nesting()
        assert torch.overrides._get_current_function_mode_stack() == [mine]
        assert torch.is_grad_enabled()
    torch.autocast_increment_nesting()
    assert torch.autocast_decrement_nesting() == 0


def test_an_observed_tensor_dies_without_python_code(own_handler):
    """A Ctrl-C inside the callback of a weak reference would be printed and lost."""
    with recording(zoo.model("bert")):
        (observer,) = torch.overrides._get_current_function_mode_stack()
        tensor = torch.ones(2, 3, 3).softmax(-1)
        assert observer._traces.get(tensor) is not None
        callback = weakref.getweakrefs(tensor)[0].__callback__
        assert not hasattr(callback, "__code__")
        del tensor
        assert not observer._traces
