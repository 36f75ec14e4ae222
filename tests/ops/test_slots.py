"""What an op slot tells and does, and binding the slots of a whole module."""

from __future__ import annotations

import copy
import pickle
import re
import warnings

import pytest

from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec, OpsConfig, OpSlot, bind_ops
from tests.ops.modules import LAYER, NET, ONE, THREE, TWO, double, factor, refused, triple

TWO_SLOTS = """
shift = OpSlot("shift")

class Net(nn.Module):
    def forward(self, x):
        x = scale(x) if scale.has_kernel else x
        return shift(x) if shift.has_kernel else x + 1
"""


pytestmark = pytest.mark.usefixtures("slot_kernels")


def warned(call, *arguments):
    """The warnings of a call; every one must point at the line that called."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(*arguments)
    assert all(one.filename == __file__ for one in found)
    assert all(one.category is RuntimeWarning for one in found)
    return [str(one.message) for one in found]


def state(slot):
    return (
        slot.implementation,
        slot.bound_kernel,
        slot.is_bound,
        slot.has_kernel,
        slot.use_non_eager_impl,
        slot.use_eager_impl,
    )


def test_a_new_slot_is_not_bound_and_eager():
    slot = OpSlot("scale", "standard")
    assert (slot.op_name, slot.variant) == ("scale", "standard")
    assert OpSlot("scale").variant == "standard"
    assert state(slot) == (None, None, False, False, False, True)
    assert repr(slot) == "OpSlot('scale', 'standard', not bound)"


def test_a_slot_that_is_bound_runs_its_kernel():
    slot = OpSlot("scale")
    slot.bind("double")
    assert state(slot) == ("double", double, True, True, True, False)
    assert slot(4) == 8
    assert slot(x=4) == 8
    assert repr(slot) == "OpSlot('scale', 'standard', double)"


def test_a_slot_bound_to_eager_leaves_the_lines_of_upstream():
    slot = OpSlot("scale")
    slot.bind("eager")
    assert state(slot) == ("eager", None, True, False, False, True)


def test_a_registered_eager_can_be_called_and_is_still_eager():
    KERNEL_REGISTRY.register(KernelSpec("eager", "scale", "standard", lambda: abs))
    slot = OpSlot("scale")
    slot.bind("eager")
    assert state(slot) == ("eager", abs, True, False, False, True)
    assert slot(-3) == 3


@pytest.mark.parametrize("implementation", [None, "eager"])
def test_a_call_without_a_kernel_says_what_to_do(implementation):
    slot = OpSlot("scale")
    if implementation:
        slot.bind(implementation)
    with pytest.raises(RuntimeError, match=re.escape("slot scale/standard has no kernel: check has_kernel first")):
        slot(1)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("dobule", "there is no kernel 'dobule' for scale/standard\n  Did you mean 'double'?"),
        ("npu", "kernel 'npu' for scale/standard needs an NPU"),
        (None, "an implementation of scale/standard is a name, not None"),
        (double, "an implementation of scale/standard is a name, not <function double"),
    ],
)
def test_a_bind_that_fails_leaves_the_slot_as_it_was(asked, said):
    slot = OpSlot("scale")
    assert said in refused(slot.bind, asked)
    assert state(slot) == (None, None, False, False, False, True)
    slot.bind("double")
    assert said in refused(slot.bind, asked)
    assert state(slot) == ("double", double, True, True, True, False)


def test_the_error_of_a_bind_lists_what_there_is():
    assert "There are: eager, double, npu (needs an NPU), triple." in refused(OpSlot("scale").bind, "fast")
    assert "no kernel is registered for the op 'scael'" in refused(OpSlot("scael").bind, "double")
    assert "op 'scale' has no variant 'causal'" in refused(OpSlot("scale", "causal").bind, "double")


def test_an_op_of_which_nothing_is_registered_can_be_eager():
    slot = OpSlot("nothing_of_this", "at_all")
    slot.bind("eager")
    assert state(slot) == ("eager", None, True, False, False, True)


@pytest.mark.parametrize("arguments", [("",), (None,), (3,), ("scale", ""), ("scale", None)])
def test_a_slot_without_a_name_is_refused(arguments):
    assert "OpSlot: op and variant are names, not" in refused(OpSlot, *arguments)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda slot: pickle.loads(pickle.dumps(slot))])
@pytest.mark.parametrize("implementation", [None, "eager", "double"])
def test_copies_and_pickles_keep_the_binding(copied, implementation):
    slot = OpSlot("scale")
    if implementation:
        slot.bind(implementation)
    again = copied(slot)
    assert again is not slot
    assert (again.op_name, again.variant) == ("scale", "standard")
    assert state(again) == state(slot)


def test_a_slot_keeps_its_kernel_when_another_takes_its_name():
    slot = OpSlot("scale")
    slot.bind("double")
    KERNEL_REGISTRY.register(KernelSpec("double", "scale", "standard", lambda: triple), force=True)
    assert slot.bound_kernel is double
    slot.bind("double")
    assert slot.bound_kernel is triple


def test_binding_a_module_binds_its_models_made_and_to_come(write):
    module = write(NET)
    before = module.Net()
    assert factor(before) == 1
    bind_ops(module, TWO)
    assert factor(before) == 4
    assert factor(module.Net()) == 4


def test_what_was_bound_is_returned(write):
    module = write(TWO_SLOTS)
    for config, expected in (
        (OpsConfig(), ["eager", "eager"]),
        ({"shift_implementation": "less"}, ["eager", "less"]),
        (TWO, ["double", "eager"]),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = bind_ops(module, config)
        assert [one.implementation for one in found] == expected
        assert [one.name for one in found] == ["scale", "shift"]
        assert {one.module for one in found} == {module.__name__}
        assert [(one.op_name, one.variant) for one in found] == [("scale", "standard"), ("shift", "standard")]
        assert [module.scale.implementation, module.shift.implementation] == expected
    assert str(found[0]) == f"{module.__name__}.scale (scale/standard): double"


def test_both_names_of_one_slot_are_returned(write):
    module = write("other = scale")
    assert [one.name for one in bind_ops(module, TWO)] == ["other", "scale"]
    assert module.other is module.scale


def test_rebinding_warns_once_and_names_the_models_that_share(write):
    module = write(NET)
    first, second, own = module.Net(), module.Net(), module.Net()
    bind_ops(own, THREE)
    assert warned(bind_ops, module, TWO) == []
    assert warned(bind_ops, module, TWO) == []
    (text,) = warned(bind_ops, module, THREE)
    assert text == (
        f"slots of {module.__name__} are bound anew (scale/standard: double -> triple), shared by 2 x Net. "
        "bind_ops(model, ...) gives one model its own bindings."
    )
    assert [factor(model) for model in (first, second, own)] == [9, 9, 9]
    del first, second
    assert "no model has been made of them yet" in warned(bind_ops, module, TWO)[0]


def test_a_model_that_is_bound_in_part_shares_the_rest(write):
    module = write(NET)
    model = module.Net()
    bind_ops(model.layers[0], TWO)
    bind_ops(module, TWO)
    assert "shared by Net." in warned(bind_ops, module, THREE)[0]
    assert factor(model) == 6


def test_rebinding_names_each_slot_that_changes(write):
    module = write(TWO_SLOTS)
    bind_ops(module, {**TWO, "shift_implementation": "less"})
    (text,) = warned(bind_ops, module, {**THREE, "shift_implementation": "less"})
    assert "(scale/standard: double -> triple)" in text
    (text,) = warned(bind_ops, module, {})
    assert "(scale/standard: triple -> eager; shift/standard: less -> eager)" in text


def test_rebinding_a_slot_by_itself_warns_as_well(write):
    module = write(NET)
    model = module.Net()
    assert warned(module.scale.bind, "double") == []
    assert warned(module.scale.bind, "double") == []
    (text,) = warned(module.scale.bind, "triple")
    assert "scale/standard: double -> triple" in text
    assert f"of {module.__name__}" in text
    assert "shared by Net" in text
    assert factor(model) == 9


def test_a_model_whose_making_failed_does_not_disturb_the_warning(write):
    module = write(LAYER + "\n\nclass Broken(nn.Module):\n    def __init__(self):\n        pass\n")
    kept = module.Broken()
    bind_ops(module, TWO)
    assert "no model has been made" in warned(bind_ops, module, THREE)[0]
    assert kept is not None


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"scael_implementation": "double"},
            "the ops config names 'scael_implementation', which matches no op\n  Did you mean 'scale_implementation'?",
        ),
        ({"scale": "double"}, "names 'scale', which matches no op\n  Did you mean 'scale_implementation'?"),
        ({3: "double"}, "names 3, which matches no op\n  There are: "),
        ({"scale_implementation": None}, "scale_implementation is the name of an implementation, not None"),
        ({"scale_implementation": double}, "scale_implementation is the name of an implementation, not <function"),
        ({"scale_implementation": "Eager"}, "there is no kernel 'Eager' for scale/standard"),
        (None, "an ops config is an OpsConfig, a mapping of its fields or the name of a preset, not None"),
        ("dobule", "no slot has a kernel for the preset 'dobule'\n  Did you mean 'double'?"),
        ([("scale_implementation", "double")], "an ops config is an OpsConfig, a mapping of its fields or"),
    ],
)
@pytest.mark.parametrize("whole", [True, False], ids=["module", "model"])
def test_a_bad_config_binds_nothing(write, config, said, whole):
    module = write(NET)
    model = module.Net()
    bind_ops(module, TWO)
    assert said in refused(bind_ops, module if whole else model, config)
    assert module.scale.implementation == "double"
    assert factor(model) == 4
    assert type(model.layers[0]) is module.Layer


def test_all_that_is_wrong_is_said_at_once_and_nothing_is_bound(write):
    module = write(TWO_SLOTS)
    text = refused(bind_ops, module, {"scale_implementation": "dobule", "shift_implementation": "npu"})
    assert "there is no kernel 'dobule' for scale/standard" in text
    assert "there is no kernel 'npu' for shift/standard" in text
    text = refused(bind_ops, module, {"scale_implementation": "double", "shift_implementation": "npu"})
    assert "scale/" not in text
    assert [module.scale.is_bound, module.shift.is_bound] == [False, False]


def test_an_implementation_that_no_slot_takes_warns(write):
    module = write(NET)
    config = OpsConfig(rms_norm_implementation="liger_kernel")
    (text,) = warned(bind_ops, module, config)
    assert text == f"no slot of {module.__name__} takes rms_norm_implementation='liger_kernel'"
    (text,) = warned(bind_ops, module.Net(), {**TWO, "layer_norm_implementation": "npu"})
    assert text == f"no slot of {module.__name__} takes layer_norm_implementation='npu'"
    assert warned(bind_ops, module, OpsConfig(rms_norm_implementation="eager")) == []


def test_a_config_of_a_class_of_ones_own_may_have_more_ops(write):
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Mine(OpsConfig):
        scale_implementation: str = "double"

    module = write(NET)
    bind_ops(module, Mine())
    assert module.scale.implementation == "double"


def test_ops_left_out_of_a_mapping_are_eager(write):
    module = write(TWO_SLOTS)
    bind_ops(module, TWO)
    with pytest.warns(RuntimeWarning, match="bound anew"):
        bind_ops(module, {"shift_implementation": "less"})
    assert module.scale.implementation == "eager"


def test_what_has_no_slot_is_refused(write):
    module = write(LAYER, header="from torch import nn\nfrom patchgen_core.ops import OpSlot\n")
    assert f"{module.__name__} has no op slot to bind\n  Declare one" in refused(bind_ops, module, ONE)
    assert "Layer has no op slot to bind" in refused(bind_ops, module.Layer(), ONE)


@pytest.mark.parametrize("target", [None, "a.module", OpSlot("scale"), dict])
def test_only_modules_and_models_are_bound(target):
    assert "bind_ops takes a generated module or a model, not" in refused(bind_ops, target, {})


def test_the_class_of_a_model_is_refused(write):
    module = write(NET)
    assert "bind_ops takes a generated module or a model, not <class" in refused(bind_ops, module.Net, TWO)
