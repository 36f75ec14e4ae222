"""Reports with something in every place, and reports of many configs, for the tests of the HTML pages."""

from __future__ import annotations

import argparse
import inspect
from functools import cache
from pathlib import Path

from patchgen_core.build.results import Cause
from patchgen_core.checks.result import CheckResult, FileDifference, Table
from patchgen_core.errors import Location, Problem, Snippet
from patchgen_core.report.gate.report import GateReport
from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.upgrade.matrix.results import Cell, MatrixReport, MatrixRow, PatchRow
from patchgen_core.upgrade.results import ConfigVerdict, Conflict, Finding, Merged, PatchVerdict, Rebase, UpgradeReport

ROOT = Path("/project")
HOSTILE = """</script><script>document.title='owned'</script><img src=x onerror="document.title='owned'">&amp;"""
OLD = '''class Norm:
    """A norm."""

    def forward(self, x, scale=1.0):
        """Scale it.

        return nothing
        """
        if scale == 1.0:
            return self.weight * x
        return self.weight * (x * scale)
'''
NEW = OLD.replace("self.weight * x\n", "self.weight * x.float()  # in float32\n").replace("scale)", "self.scale)")
VERSIONS = ("5.2.0", "5.9.0", "5.16.1", "5.23.0")
_COLUMNS = ("shape", "dtype", "absolute", "relative", "allowed", "verdict")


def diff(old: str = OLD, new: str = NEW, name: str = "generated/norm.py") -> str:
    return unified_diff(old, new, f"{name} (checked in)", f"{name} (generated now)")


def problem(message: str = "a field is missing", code: str = "PG205", line: int = 7) -> Problem:
    location = Location(str(ROOT / "models/toy_gpu_patch_gen_config.py"), line)
    generated = Snippet(Location(str(ROOT / "models/generated/toy.py"), 40), ">    40 |     return output")
    return Problem(message, location, "Return it.\n  The whole of it.", ">     7 | x = 1", code, generated)


def layers(wrong: int | None = 5, count: int = 12) -> Table:
    rows = []
    for number in range(count):
        is_wrong = wrong is not None and number >= wrong
        name = f"model.layers.{number // 3}.{('norm', 'attn', 'mlp')[number % 3]}"
        error = "3.00e-01" if is_wrong else "0" if number == 1 else f"{number + 1}.00e-07"
        rows.append((name, "Norm", "2x16", "float32", error, error, "1.00e-05", "differs" if is_wrong else "ok"))
    return Table("ToyForCausalLM, batch 'padded', float32: layers", ("module", "class", *_COLUMNS), tuple(rows))


def tensors() -> Table:
    rows = (
        ("loss", "-", "float32", "1.00e-02", "1.00e-02", "1.00e-05", "differs"),
        ("logits", "2x16", "float32", "0", "0", "0", "ok"),
    )
    return Table("ToyForCausalLM, batch 'padded', float32: tensors", ("tensor", *_COLUMNS), rows)


def record(config: str, check: str, status: str = "clean", **more: object) -> CheckResult:
    path = str(ROOT / f"models/{config.replace('.', '/')}.py")
    return CheckResult(config, path, 3, check, status, item=f"{path}::{more.pop('name', check)}", **more)  # type: ignore[arg-type]


def gate_report() -> GateReport:
    """Five configs: drifted, failed, in error, with a warning, clean; what was not run; a hostile text."""
    toy, bad, warned, clean = (f"zoo.{name}_gpu_patch_gen_config" for name in ("toy", "bad", "warned", "clean"))
    file = FileDifference(str(ROOT / "models/generated/norm.py"), False, diff(), diff())
    gone = FileDifference(str(ROOT / "models/generated/gone.py"), True, diff(""), diff(""))
    causes = (Cause("upstream moved", "Norm.forward changed", diff(name="norm.py")), Cause("edited by hand", HOSTILE))
    shares = {"ToyModel, padded, float32: loss": 1e-7, "ToyModel, padded, float32: logits": 0.0}
    shares |= {"ToyModel, padded, float32: largest part of what is allowed": 0.25}
    shares |= {"ToyModel, rows, float32: largest part of what is allowed": 0.75, "tensors": 89.0}
    records = (
        record(toy, "drift", "drifted", causes=causes, files=(file, gone), seconds=0.5),
        record(toy, "contract", "failed", errors=(problem(), problem(HOSTILE, "PG202", 9))),
        record(
            toy,
            "parity",
            "failed",
            name="parity[eager]",
            errors=(problem("'loss' differs", "", 7),),
            tables=(tensors(), layers()),
        ),
        record(toy, "parity", "clean", name="parity[slots]", figures=shares, notes=("no checkpoint",)),
        record(bad, "drift", "error", errors=(Problem("the config cannot be loaded"),)),
        record(bad, "contract", "skipped", reason="there is nothing to check"),
        record(warned, "drift", "clean"),
        record(warned, "contract", "clean", warnings=(problem("an import is not used", "PG214"),)),
        record(clean, "drift", "clean", figures={"allowances": 2.5}),
        record(f"zoo.{HOSTILE}", "drift", "fixed", written=(str(ROOT / "w.py"),), removed=(str(ROOT / "r.py"),)),
    )
    return GateReport(records, (f"models/toy.py::plan {HOSTILE}",), (str(ROOT / "models/late.py"),), True)


def patch(target: str = "Norm.forward", **more: object) -> PatchVerdict:
    at = Location(str(ROOT / "models/toy_gpu_patch_gen_config.py"), 20)
    given = {"verdict": "unchanged", "risk": "safe", "findings": ()} | more
    return PatchVerdict("override_method", target, "Op slot for the norm", at, **given)  # type: ignore[arg-type]


def upgrade_report() -> UpgradeReport:
    """Three configs, one of each risk; a clean merge and a conflict."""
    at = Location(str(ROOT / "models/toy_gpu_patch_gen_config.py"), 20)
    change = Finding("changed", "Norm.forward", "target", "one statement changed", "review", diff(name="norm.py"))
    field = Finding("gone", "NormConfig.rope_theta", "field", "the new configuration lacks it", "must change")
    clean = Rebase(at, OLD, Merged(NEW, "syntax", (), ("x is assumed to be a tensor",)), diff(), "", ("import torch",))
    conflict = Conflict(4, "both change the returned value", "return x", HOSTILE, "return x.float()")
    marked = Rebase(at, OLD, Merged(OLD, "syntax", (conflict,)), "", "<<<<<<<")
    must = (
        patch("Norm.gone", verdict="gone", risk="must change", findings=(field,), problems=(problem(HOSTILE),)),
        patch("Norm.both", verdict="changed", risk="must change", findings=(change,), rebase=marked),
        patch("Norm.forward", verdict="changed", risk="review", findings=(change,), rebase=clean),
        patch("Norm.moved", verdict="moved", risk="review", new_name="Norm.call"),
        *(patch(f"Norm.same{number}") for number in range(3)),
    )
    configs = (
        verdict("zoo.must_gpu_patch_gen_config", "must change", must, findings=(change,), notes=("a note",)),
        verdict("zoo.review_gpu_patch_gen_config", "review", must[2:]),
        verdict("zoo.safe_gpu_patch_gen_config", "safe", (patch(), patch("Norm.other", verdict="cosmetic"))),
    )
    failed = (Problem(f"cannot be loaded {HOSTILE}"),)
    return UpgradeReport("transformers", "5.23.0", configs, ("zoo.other: not of transformers",), failed)


def verdict(name: str, risk: str, patches: tuple[PatchVerdict, ...], **more: object) -> ConfigVerdict:
    path = str(ROOT / f"{name.replace('.', '/')}.py")
    given = (name, path, 12, "transformers.models.toy.modeling_toy", "5.9.0", "5.23.0", "download", risk, patches)
    return ConfigVerdict(*given, **more)  # type: ignore[arg-type]


def matrix_report() -> MatrixReport:
    """Three configs against four releases."""
    why = problem("patch target 'Norm.forward' is not in upstream", "")
    at = Location(str(ROOT / "models/toy_gpu_patch_gen_config.py"), 20)
    breaks = (*cells(("ok", "cosmetic")), *(Cell(v, "breaks", ("it is gone",), (why,)) for v in VERSIONS[2:]))
    broken = PatchRow(
        "override_method",
        "Norm.forward",
        at,
        cells=breaks,
        first_broken="5.12.0",
        last_working="5.11.0",
        is_exact=False,
    )
    good = PatchRow("override_method", "Norm.other", at, cells=cells(("ok",) * 4))
    rows = (
        row("zoo.broken_gpu_patch_gen_config", breaks, (broken, good)),
        row("zoo.fine_gpu_patch_gen_config", cells(("ok", "ok", "changed", "cosmetic")), (good,)),
        row("zoo.new_gpu_patch_gen_config", cells(("absent", "absent", "ok", "ok")), (good,)),
    )
    return MatrixReport("transformers", VERSIONS, rows, ("zoo.other: not of transformers",), (), ("5.11.0", "5.12.0"))


def wide_matrix_report(releases: int) -> MatrixReport:
    """A config with a patch against so many releases, of which the newest breaks it."""
    versions = tuple(f"5.{number}.0" for number in range(releases))
    own = tuple(Cell(version, "breaks" if version == versions[-1] else "ok") for version in versions)
    at = Location(str(ROOT / "models/toy_gpu_patch_gen_config.py"), 20)
    patch = PatchRow("override_method", "Norm.forward", at, cells=own, first_broken=versions[-1])
    return MatrixReport("transformers", versions, (row("zoo.wide_gpu_patch_gen_config", own, (patch,)),), (), (), ())


def cells(states: tuple[str, ...]) -> tuple[Cell, ...]:
    return tuple(Cell(version, state) for version, state in zip(VERSIONS, states))  # type: ignore[arg-type]


def row(name: str, own: tuple[Cell, ...], patches: tuple[PatchRow, ...]) -> MatrixRow:
    path = str(ROOT / f"{name.replace('.', '/')}.py")
    return MatrixRow(name, path, 12, "transformers.models.toy.modeling_toy", "5.9.0", patches, cells=own)


# --- many ------------------------------------------------------------------------------------------


@cache
def _methods() -> tuple[tuple[str, str], ...]:
    """Real methods, and what they are after a change."""
    found = []
    for kind in (argparse.ArgumentParser, argparse.HelpFormatter, argparse._ActionsContainer):
        for _, method in sorted(vars(kind).items()):
            if inspect.isfunction(method):
                text = inspect.getsource(method)
                found.append((text, text.replace("self", "own").replace("return ", "result = ", 1)))
    return tuple(found)


def many_gate(count: int) -> GateReport:
    """Configs by turns drifted, failed, warned and clean, with diffs of real code."""
    records = []
    for number in range(count):
        name = f"zoo.model_{number:03}_gpu_patch_gen_config"
        old, new = _methods()[number % len(_methods())]
        file = FileDifference(
            str(ROOT / f"generated/{number}.py"), False, *(diff(old, new, f"generated/{number}.py"),) * 2
        )
        drifted = {"status": "drifted", "causes": (Cause("config changed", "forward changed"),), "files": (file, file)}
        failed = {"status": "failed", "errors": (problem(),)}
        kind = number % 5
        records += [
            record(name, "drift", **(drifted if kind < 3 else {})),  # type: ignore[arg-type]
            record(name, "contract", **(failed if kind == 1 else {})),  # type: ignore[arg-type]
            record(name, "parity", tables=(tensors(), layers()) if kind == 2 else ()),
        ]
    return GateReport(tuple(records))
