"""What a configuration of ops may say: "fused", names of earlier configurations, presets, and YAML files."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import pytest

from patchgen_core.ops import KERNEL_REGISTRY, HardwareRequirement, KernelSpec, OpsConfig, OpSlot, bind_ops
from tests.ops.modules import NET, TWO, double, factor, no_warnings, refused, triple

TWO_SLOTS = """
shift = OpSlot("shift")

class Net(nn.Module):
    def forward(self, x):
        x = scale(x) if scale.has_kernel else x
        return shift(x) if shift.has_kernel else x + 1
"""
FUSED = {"scale_implementation": "fused"}

pytestmark = pytest.mark.usefixtures("slot_kernels")


def register(name, kernel=double, op="scale", **rest):
    KERNEL_REGISTRY.register(KernelSpec(name, op, "standard", lambda: kernel, **rest))


def warned(call, *arguments):
    """The category and text of each warning of a call; all must point at this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments)
    assert all(one.filename == __file__ for one in caught)
    return [(one.category, str(one.message)) for one in caught]


class TestFused:
    def test_it_is_the_best_that_can_run_here(self, module):
        register("slow", fused_rank=1)
        register("fast", triple, fused_rank=2)
        register("fastest", fused_rank=3, hardware=HardwareRequirement("npu"))
        (binding,) = bind_ops(module, FUSED)
        assert (binding.implementation, binding.requested) == ("fast", "fused")
        assert str(binding) == f"{module.__name__}.scale (scale/standard): fast, for 'fused'"
        assert (module.scale.implementation, module.scale.bound_kernel) == ("fast", triple)

    def test_a_model_of_its_own_is_copied_and_pickled_with_what_it_became(self, module):
        register("fast", triple, fused_rank=1)
        model = module.Net()
        (binding,) = bind_ops(model, FUSED)
        assert binding.implementation == "fast"
        assert [factor(model), factor(pickle.loads(pickle.dumps(model))), factor(module.Net())] == [9, 9, 1]

    def test_where_none_can_run_the_error_says_what_each_needs(self, module):
        register("one", fused_rank=1, hardware=HardwareRequirement("npu"))
        register("two", fused_rank=2, packages=("nothing_like_this",))
        text = refused(bind_ops, module, FUSED)
        assert "no fused kernel for scale/standard can run here: " in text
        assert "one needs an NPU" in text
        assert "two needs package 'nothing_like_this'" in text
        assert "This machine has: " in text
        assert not module.scale.is_bound

    def test_a_kernel_without_a_rank_is_never_taken(self, module):
        text = refused(bind_ops, module, FUSED)
        assert "there is no kernel 'fused' for scale/standard\n  There are: eager, double," in text

    def test_a_kernel_of_that_name_is_itself(self, module):
        register("fast", fused_rank=1)
        register("fused", triple)
        assert [one.implementation for one in bind_ops(module, FUSED)] == ["fused"]

    def test_a_slot_by_itself(self):
        register("fast", triple, fused_rank=1)
        slot = OpSlot("scale")
        slot.bind("fused")
        assert (slot.implementation, slot(2)) == ("fast", 6)

    def test_the_same_kernel_by_another_name_is_no_rebinding(self, module):
        register("liger_kernel", triple, fused_rank=1)
        model = module.Net()
        for target in (module, model):
            for config in ("liger_kernel", {"scale_implementation": "liger"}, FUSED, "fused"):
                assert warned(bind_ops, target, config) == []
        ((category, text),) = warned(bind_ops, module, "double")
        assert category is RuntimeWarning
        assert "are bound anew (scale/standard: liger_kernel -> double)" in text

    def test_of_the_experts_it_is_the_grouped_matrix_multiply(self):
        assert KERNEL_REGISTRY.choose("moe_experts", "fused") == "grouped_mm"


class TestNamesOfEarlierConfigurations:
    def test_liger_is_liger_kernel(self, module):
        register("liger_kernel", triple)
        (binding,) = bind_ops(module, {"scale_implementation": "liger"})
        assert (binding.implementation, binding.requested) == ("liger_kernel", "liger")

    def test_a_kernel_that_is_called_liger_is_itself(self, module):
        register("liger_kernel")
        register("liger", triple)
        assert bind_ops(module, {"scale_implementation": "liger"})[0].implementation == "liger"

    @pytest.mark.parametrize(
        ("given", "own"), [("eager", "eager"), ("fused", "fused"), ("fused_quack", "quack"), ("quack", "quack")]
    )
    def test_moe_implementation_is_that_of_the_experts_and_deprecated(self, given, own):
        rows = warned(OpsConfig.from_mapping, {"moe_implementation": given})
        text = f"moe_implementation={given!r} is moe_experts_implementation={own!r} now"
        assert rows == [(DeprecationWarning, text)]
        with no_warnings():
            config = OpsConfig.from_mapping({"moe_implementation": given})
        assert config == OpsConfig(moe_experts_implementation=own)

    def test_the_deprecation_points_at_who_binds(self, module):
        rows = warned(bind_ops, module, {**TWO, "moe_implementation": "eager"})
        assert [category for category, _ in rows] == [DeprecationWarning]

    def test_other_names_of_ops(self):
        config = OpsConfig.from_mapping(
            {"load_balancing_loss_implementation": "eager", "apply_rotary_pos_emb_implementation": "liger"}
        )
        assert config.moe_load_balancing_loss_implementation == "eager"
        assert config.rotary_pos_emb_implementation == "liger"

    def test_an_op_of_that_name_is_itself(self, write):
        register("fast", op="load_balancing_loss")
        config = OpsConfig.from_mapping({"load_balancing_loss_implementation": "fast"})
        assert config.moe_load_balancing_loss_implementation is None
        module = write('load_balancing_loss = OpSlot("load_balancing_loss")\n' + NET)
        bindings = bind_ops(module, config)
        assert [one.implementation for one in bindings] == ["fast", "eager"]

    def test_an_old_name_beside_the_new_one_is_refused(self):
        mapping = {"moe_experts_implementation": "eager", "moe_implementation": "fused"}
        text = refused(OpsConfig.from_mapping, mapping)
        assert "'moe_implementation' beside 'moe_experts_implementation', which means the same" in text

    def test_attention_is_transformers(self):
        text = refused(OpsConfig.from_mapping, {"attn_implementation": "sdpa"})
        assert "names 'attn_implementation', which matches no op\n  Attention is chosen by transformers" in text


class TestPresets:
    def test_one_word_for_all_ops(self, write):
        module = write(TWO_SLOTS)
        register("double", op="shift")
        for config in ("double", {"preset": "double"}, OpsConfig(preset="double")):
            with no_warnings():
                bindings = bind_ops(module, config)
            assert [one.implementation for one in bindings] == ["double", "double"]
            bind_ops_quietly(module, "eager")
            assert [module.scale.implementation, module.shift.implementation] == ["eager", "eager"]

    def test_what_it_has_no_kernel_for_is_named_in_a_warning_and_eager(self, write):
        module = write(TWO_SLOTS)
        (row,) = warned(bind_ops, module, "double")
        text = f"the preset 'double' has no kernel for {module.__name__}.shift (shift/standard): eager there"
        assert row == (RuntimeWarning, text)
        bindings = bind_ops_quietly(module, "double")
        assert [one.implementation for one in bindings] == ["double", "eager"]
        assert str(bindings[1]).endswith("shift (shift/standard): eager, for which there is no 'double'")

    def test_made_an_error_the_warning_binds_nothing(self, write):
        module = write(TWO_SLOTS)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning):
                bind_ops(module, "double")
        assert [module.scale.is_bound, module.shift.is_bound] == [False, False]

    def test_a_kernel_that_cannot_run_here_is_an_error(self, write):
        module = write(TWO_SLOTS)
        assert "kernel 'npu' for scale/standard needs an NPU" in refused(bind_ops, module, "npu")
        register("fast", fused_rank=1, hardware=HardwareRequirement("npu"))
        assert "no fused kernel for scale/standard can run here" in refused(bind_ops, module, "fused")
        assert not module.scale.is_bound

    def test_a_preset_that_has_a_kernel_for_no_slot_is_an_error(self, write):
        module = write(TWO_SLOTS)
        text = refused(bind_ops, module.Net(), "lses")
        assert "no slot has a kernel for the preset 'lses'\n  Did you mean 'less'?" in text

    def test_what_is_named_is_not_the_presets(self, write):
        module = write(TWO_SLOTS)
        for config in (
            {"preset": "double", "shift_implementation": "less"},
            OpsConfig(preset="double", others={"shift_implementation": "less"}),
        ):
            assert warned(bind_ops, module, config) == []
        assert module.shift.implementation == "less"
        text = refused(bind_ops, module, {"preset": "double", "shift_implementation": "double"})
        assert "there is no kernel 'double' for shift/standard" in text

    def test_an_alias_and_fused_are_presets(self, write):
        module = write(TWO_SLOTS)
        register("liger_kernel", fused_rank=1)
        for preset in ("liger", "fused"):
            bindings = bind_ops_quietly(module, preset)
            assert [one.implementation for one in bindings] == ["liger_kernel", "eager"]


class TestFiles:
    def test_a_file_says_what_a_mapping_says(self, file):
        path = file("rms_norm_implementation: liger\nscale_implementation: double\npreset: fused\n")
        config = OpsConfig.from_file(path)
        others = {"scale_implementation": "double"}
        assert config == OpsConfig(rms_norm_implementation="liger", preset="fused", others=others)
        assert hash(config) == hash(OpsConfig.from_file(str(path)))

    def test_a_file_may_hold_nothing_and_be_json(self, file):
        assert OpsConfig.from_file(file("# all eager\n")) == OpsConfig()
        assert OpsConfig.from_file(file('{"preset": "liger"}')) == OpsConfig(preset="liger")

    def test_a_section_of_a_larger_file(self, file):
        path = file("model:\n  path: x\n  ops_implementation:\n    preset: liger\ntrain: {lr: 1}\n")
        assert OpsConfig.from_file(path, "model.ops_implementation").preset == "liger"
        text = refused(OpsConfig.from_file, path, "model.ops_implementations")
        assert "ops.yaml:2: section 'model' has no section 'ops_implementations'\n  Did you mean" in text
        assert "ops.yaml:2: section 'path' is not a mapping" in refused(OpsConfig.from_file, path, "model.path")

    def test_what_is_merged_is_overridden(self, file):
        path = file("base: &base\n  preset: liger\n  scale_implementation: less\nours:\n  <<: *base\n  preset: npu\n")
        config = OpsConfig.from_file(path, "ours")
        assert (config.preset, config.others) == ("npu", {"scale_implementation": "less"})

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "\nscael_implementation: double\n",
                "ops.yaml:2: the ops config names 'scael_implementation', which matches no op",
            ),
            ("\n\nscael_implementation: double\n", "Did you mean 'scale_implementation'?"),
            (
                "scale_implementation: off\n",
                "ops.yaml:1: scale_implementation is the name of an implementation, not False",
            ),
            ("scale_implementation: off\n", "quote the name"),
            (
                "scale_implementation: [double]\n",
                "ops.yaml:1: scale_implementation is the name of an implementation, not ['",
            ),
            ("preset: npu\npreset: liger\n", "ops.yaml:2: the file has 'preset' twice\n  The first is at "),
            ("- double\n", "ops.yaml:1: the file is not a mapping of names to implementations"),
            ("? [a]\n: b\n", "ops.yaml:1: the file has a name that is not text"),
            ("preset: 'npu\n", "is no YAML: "),
            ("preset: !!python/object:os.system x\n", "ops.yaml:1: cannot be read: could not determine a constructor"),
            ("moe_implementation: eager\nmoe_experts_implementation: eager\n", "ops.yaml:2: the ops config has"),
        ],
    )
    def test_what_is_wrong_is_told_with_file_and_line(self, file, text, message):
        with no_warnings():
            assert message in refused(OpsConfig.from_file, file(text))

    def test_all_that_is_wrong_is_told_at_once(self, file):
        text = refused(OpsConfig.from_file, file("scael_implementation: x\npreset: 3\n"))
        assert ["ops.yaml:1: " in text, "ops.yaml:2: " in text] == [True, True]

    def test_binding_names_the_line_as_well(self, file, write):
        module = write(TWO_SLOTS)
        config = OpsConfig.from_file(file("\nscale_implementation: dobule\npreset: npu\n"))
        text = refused(bind_ops, module, config)
        assert "ops.yaml:2: there is no kernel 'dobule' for scale/standard\n  Did you mean 'double'?" in text
        config = OpsConfig.from_file(file("preset: npu\n"))
        assert "ops.yaml:1: kernel 'npu' for scale/standard needs an NPU" in refused(bind_ops, module, config)

    def test_a_file_that_is_not_there(self, tmp_path):
        assert "ops.yaml: cannot be read: No such file" in refused(OpsConfig.from_file, tmp_path / "ops.yaml")

    def test_an_op_that_is_not_registered_is_told_when_it_is_bound(self, module):
        config = OpsConfig(others={"scael_implementation": "double"})
        assert "names 'scael_implementation', which matches no op" in refused(bind_ops, module, config)

    def test_the_deprecation_names_the_line(self, file):
        ((category, text),) = warned(OpsConfig.from_file, file("\nmoe_implementation: fused\n"))
        assert category is DeprecationWarning
        assert "ops.yaml:2: moe_implementation='fused' is" in text


@pytest.fixture
def file(tmp_path: Path):
    def write_file(text: str) -> Path:
        path = tmp_path / "ops.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def bind_ops_quietly(module, config):
    with no_warnings():
        return bind_ops(module, config)
