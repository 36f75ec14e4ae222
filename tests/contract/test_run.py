from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from patchgen_core.checks.contract.rule import Finding, Subject
from patchgen_core.checks.contract.rules import signature
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.source import SourceCache
from tests.conftest import CONFIG, Workspace
from tests.contract.support import made


def broken(subject: Subject) -> Iterator[Finding]:
    raise LookupError(subject.plan.config.target_file)


def test_defect_of_a_rule_is_an_error_that_names_it_and_the_config(gated: Workspace) -> None:
    contracts = Contracts(gated.project, SourceCache())
    contracts.rules = (replace(signature.RULE, check=broken),)
    with pytest.raises(PatchgenError) as caught:
        contracts.examine(made(gated), gated.models / CONFIG)
    (problem,) = caught.value.problems
    assert problem.message == "PG201 cannot be checked: LookupError: patched_modeling_toy_gpu.py"
    assert problem.location is not None
    assert problem.location.file == str(gated.models / CONFIG)
    assert "run without PG201" in problem.hint
