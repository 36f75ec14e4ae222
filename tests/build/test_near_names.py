"""A name that nothing defines is told at its line, with what it may mean."""

from __future__ import annotations

import pytest

from tests.conftest import UPSTREAM_TEXT, Workspace

UPSTREAM = UPSTREAM_TEXT.replace("        return x\n", "        self.scale = 2\n        return x\n", 1)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("return resulte + x", "Did you mean 'result'? If not, import it with"),
        ("return scale * result", "Did you mean 'self.scale'? If not, import it with"),
        ("return scal * self.scale", "Did you mean 'self.scale'? If not, import it with"),
        ("return entirely_new(result)", "Import it with"),
    ],
)
def test_a_misspelt_name_is_told_with_the_right_one(work: Workspace, line: str, hint: str) -> None:
    work.upstream(UPSTREAM)
    path = work.config(
        '@config.override_method("Norm.forward")\ndef norm_forward(self, x):\n'
        f"    self.scale = 2\n    result = x * 2\n    {line}\n"
    )
    (problem,) = work.outcome().problems
    assert problem.hint.startswith(hint)
    assert problem.location is not None
    assert path.read_text().splitlines()[problem.location.line - 1].strip() == line
    assert str(problem).splitlines()[1] == f"  {problem.hint}"
