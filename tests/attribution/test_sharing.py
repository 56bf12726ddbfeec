"""What variants share is run once, and no number changes by it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

from attnx.adapters import adapter_for
from attnx.attribution import Perturbation, cases, choose_baseline, measure
from attnx.attribution import variants as prefixes
from attnx.attribution import variants as unread_rows
from attnx.attribution import variants as variants_room
from attnx.linearize import matmul as linear_map
from attnx.linearize import matmul as onednn
from tests import verb_number_zoo
from tests import zoo as families


class Positions:
    """Counts the positions that the first layer of a model gets."""

    def __init__(self, model):
        self.count = 0
        self._handle = model.model.layers[0].register_forward_pre_hook(self._add, with_kwargs=True)

    def _add(self, module, args, kwargs):
        states = args[0] if args else kwargs["hidden_states"]
        self.count += states.shape[0] * states.shape[1]

    def close(self):
        self._handle.remove()


def llama(**config):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    made = transformers.LlamaConfig(vocab_size=300, num_key_value_heads=2, **sizes, **config)
    return transformers.LlamaForCausalLM(made).eval()


def asked_of(model, tokenizer, text, named=None):
    prepared = adapter_for(model).prepare(model, tokenizer, text)
    (case,) = cases(model, tokenizer, [prepared])
    return case, choose_baseline(model, adapter_for(model), tokenizer, prepared, named)


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(prefixes, "_WORTH_IT", 1)
    monkeypatch.setattr(unread_rows, "_WORTH_A_SEARCH", 0)


TEXT = "the key to the cabinets near the old house of the boys that the girl likes"


def one_by_one(model, tokenizer, case, variants, baseline):
    with torch.no_grad():
        found = []
        for one in variants:
            inputs = {name: tensor[None] for name, tensor in baseline.apply(case.prepared, one.places).inputs.items()}
            found.append(float(model(**inputs).logits[0, case.target.position, case.target.index]))
    return np.array(found)


def classified(model, case, variants, baseline):
    """The same of a classifier, which has one answer for a text."""
    blanked = [baseline.apply(case.prepared, one.places).inputs["input_ids"][None] for one in variants]
    with torch.no_grad():
        return [float(model(ids).logits[0, case.target.index]) for ids in blanked]


def test_a_causal_model_runs_a_variant_from_its_first_blank_on(always, monkeypatch):
    monkeypatch.setattr(unread_rows, "_WORTH_A_SEARCH", 1e9)
    model, tokenizer = llama(), families.bytelevel_tokenizer()
    case, baseline = asked_of(model, tokenizer, TEXT)
    length = len(case.prepared.positions)
    variants = [
        Perturbation(0),
        *(Perturbation(0, (place,)) for place in range(length)),
        Perturbation(0, (3, length - 2)),
    ]
    counted = Positions(model)
    try:
        found = measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline, at_once=2 * length)
    finally:
        counted.close()
    np.testing.assert_allclose(found, one_by_one(model, tokenizer, case, variants, baseline), atol=1e-5)
    assert counted.count < 0.7 * len(variants) * length  # a half, and what the proof takes


def test_a_model_that_answers_otherwise_behind_a_beginning_is_run_plainly(always, monkeypatch):
    model, tokenizer = llama(), families.bytelevel_tokenizer()
    case, baseline = asked_of(model, tokenizer, TEXT)
    variants = [Perturbation(0, (place,)) for place in range(len(case.prepared.positions))]
    crop = transformers.DynamicCache.crop
    monkeypatch.setattr(transformers.DynamicCache, "crop", lambda self, off: crop(self, off - 1))
    found = measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline)
    np.testing.assert_allclose(found, one_by_one(model, tokenizer, case, variants, baseline), atol=1e-5)


def test_rows_that_nothing_reads_are_not_computed(always, monkeypatch):
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    case, baseline = asked_of(model, tokenizer, "the key to the cabinets")
    variants = [Perturbation(0, (place,)) for place in case.content]
    seen = []
    find = unread_rows._unread
    monkeypatch.setattr(unread_rows, "_unread", lambda *args: seen.append(find(*args)) or seen[-1])
    found = measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline)
    np.testing.assert_allclose(found, classified(model, case, variants, baseline), atol=1e-5)
    assert len(seen[0]) >= 3  # the last layer's query, its output and its two maps behind


def xlnet():
    """A classifier that computes length × batch × width, with biases."""
    torch.manual_seed(0)
    sizes = {"d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48}
    model = transformers.XLNetForSequenceClassification(
        transformers.XLNetConfig(vocab_size=len(families.wordpiece_tokenizer()), **sizes)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def test_rows_of_a_model_that_has_positions_first_are_all_computed(always):
    model, tokenizer = xlnet(), families.wordpiece_tokenizer()
    case, baseline = asked_of(model, tokenizer, "the key to the cabinets is on a table", "mask_token")
    length = len(case.prepared.positions)
    variants = [Perturbation(0, (place,)) for place in range(length)]  # as many as positions
    found = measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline)
    np.testing.assert_allclose(found, classified(model, case, variants, baseline), atol=1e-5)
    assert unread_rows._unread_of_model[model] == frozenset()


def test_what_was_found_of_a_model_is_tried_before_it_is_believed(always, monkeypatch):
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    case, baseline = asked_of(model, tokenizer, "the key to the cabinets")
    variants = [Perturbation(0, (place,)) for place in case.content]
    searches = []
    find = unread_rows._from_the_last
    monkeypatch.setattr(unread_rows, "_from_the_last", lambda *args: searches.append(1) or find(*args))
    unread_rows._unread_of_model.pop(model, None)
    first, again = (measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline) for _ in range(2))
    assert searches == [1]
    np.testing.assert_array_equal(first, again)
    unread_rows._unread_of_model[model] |= {0}  # the first query, which everything reads
    third = measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline)
    assert searches == [1, 1]
    np.testing.assert_array_equal(first, third)


def test_a_text_of_one_position_tells_nothing_of_what_is_read(always):
    model, tokenizer = llama(), families.bytelevel_tokenizer()
    (short, baseline), (long, _) = (asked_of(model, tokenizer, text) for text in ("a", TEXT))
    assert len(short.prepared.positions) == 1
    variants = [Perturbation(0), *(Perturbation(1, (place,)) for place in long.content)]
    found = measure(model, tokenizer, [short, long], variants, kind="logit", baseline=baseline)
    np.testing.assert_allclose(found[1:], one_by_one(model, tokenizer, long, variants[1:], baseline), atol=1e-5)


def test_variants_that_differ_in_the_last_position_alone_tell_nothing_of_what_is_read(always, monkeypatch):
    model, tokenizer = llama(), families.bytelevel_tokenizer()
    case, baseline = asked_of(model, tokenizer, TEXT)
    monkeypatch.setattr(variants_room, "find_unread_rows", lambda runs: None)
    monkeypatch.setattr(prefixes, "_SAMPLE", 1)
    variants = [Perturbation(0, (place,)) for place in (3, 9, len(case.prepared.positions) - 1)]
    found = measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline)
    np.testing.assert_allclose(found, one_by_one(model, tokenizer, case, variants, baseline), atol=1e-5)


def test_behind_a_beginning_rows_that_nothing_reads_are_not_computed(always):
    model, tokenizer = llama(), families.bytelevel_tokenizer()
    case, baseline = asked_of(model, tokenizer, TEXT)
    variants = [Perturbation(0, (place,)) for place in range(1, len(case.prepared.positions))]
    rows = []
    handle = model.model.layers[-1].mlp.down_proj.register_forward_hook(
        lambda module, args, output: rows.append(int((output != 0).any(-1).sum()) / len(output))
    )
    try:
        found = measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline)
    finally:
        handle.remove()
    np.testing.assert_allclose(found, one_by_one(model, tokenizer, case, variants, baseline), atol=1e-5)
    assert rows[-1] == 1  # of each variant the answer's alone


def test_rows_that_variants_share_are_mapped_once(always, monkeypatch):
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    case, baseline = asked_of(model, tokenizer, "the key to the cabinets near the old house")
    variants = [Perturbation(0, (place,)) for place in case.content]
    rows = []
    one_map = linear_map._map
    monkeypatch.setattr(linear_map, "_map", lambda taken, *rest: rows.append(taken.shape) or one_map(taken, *rest))
    found = measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline)
    np.testing.assert_allclose(found, classified(model, case, variants, baseline), atol=1e-5)
    kinds = len(case.prepared.positions) + len(case.content)
    assert kinds in [one[0] for one in rows if len(one) == 2]  # each position as it is, and each blank


def test_nothing_is_searched_for_where_it_would_save_less_than_it_costs(monkeypatch):
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    case, baseline = asked_of(model, tokenizer, "the key to the cabinets near the old house")
    seen = []
    monkeypatch.setattr(unread_rows, "_unread", lambda runs, *_: seen.append(len(runs.inputs)) or frozenset())
    single = [Perturbation(0, (place,)) for place in case.content]
    several = [Perturbation(0, tuple(place for place in case.content if bits >> place & 1)) for bits in range(2**9)]
    for variants in (single, several):
        measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline)
    assert seen == [len(set(several))]


def test_a_model_that_pools_over_its_positions_reads_all_rows(always, monkeypatch):
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    case, baseline = asked_of(model, tokenizer, "the key to the cabinets")
    variants = [Perturbation(0, (place,)) for place in case.content]
    seen = []
    find = unread_rows._unread
    monkeypatch.setattr(unread_rows, "_unread", lambda *args: seen.append(find(*args)) or seen[-1])
    stack = next(module for name, module in model.named_modules() if name.endswith("encoder"))
    pool = stack.register_forward_hook(
        lambda module, args, output: (
            (output[0].mean(1, keepdim=True).expand_as(output[0]), *output[1:])
            if isinstance(output, tuple)
            else type(output)(last_hidden_state=output[0].mean(1, keepdim=True).expand_as(output[0]))
        )
    )
    try:
        measure(model, tokenizer, [case], variants, kind="logit", baseline=baseline)
    finally:
        pool.remove()
    assert len(seen[0]) <= 1  # the pooler, whose input is the same everywhere, at most


def test_linear_maps_by_onednn_are_those_of_torch():
    if not onednn.prefers_onednn():
        pytest.skip("torch's own library is as quick on this processor")
    taken, weight, bias = torch.randn(2, 7, 32, requires_grad=True), torch.randn(16, 32), torch.randn(16)
    with torch.no_grad():
        torch.testing.assert_close(onednn.onednn_linear(taken, weight, bias), F.linear(taken, weight, bias))
    with linear_map.LinearLayerMode():
        (slope,) = torch.autograd.grad(F.linear(taken, weight, bias).square().sum(), taken)
    (expected,) = torch.autograd.grad(F.linear(taken, weight, bias).square().sum(), taken)
    torch.testing.assert_close(slope, expected)


def test_other_numbers_are_left_to_torch():
    taken, weight = torch.randn(2, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    with linear_map.LinearLayerMode(), torch.no_grad():
        assert torch.equal(F.linear(taken, weight), taken @ weight.t())
