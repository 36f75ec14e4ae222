"""Patterns find source by its syntax."""

from __future__ import annotations

import ast

import pytest

from patchgen_core.syntax.patterns import (
    PatternError,
    find_expressions,
    find_statements,
    nearest_code,
    parse_pattern,
)

CODE = '''
def forward(self, x, mask=None, **kwargs):
    """What it does."""
    residual = x
    x = self.norm(x)
    x, weights = self.attn(
        hidden_states=x,  # of this layer
        mask=mask,
        use_cache=True,
        **kwargs,
    )
    x = residual + x
    if mask is None:
        seen = 0
        positions: Tensor = arange(seen, seen + 1, device="cpu")
    elif mask.dim() == 4:
        positions = mask[..., 0]
    else:
        positions = None
    residual = x
    x = self.norm(x)
    try:
        x = scale(x * 2, x * 3)
    except ValueError:
        x = self.norm(x)
    return {"x": x, "shape": (x.size(0), x.size(1), 1)}
'''
TREE = ast.parse(CODE)


def lines(pattern: str) -> list[int]:
    return [match.nodes[0].lineno for match in find_statements(parse_pattern(pattern), TREE)]  # type: ignore[attr-defined]


def expressions(pattern: str) -> list[str]:
    return [ast.unparse(match.nodes[0]) for match in find_expressions(parse_pattern(pattern), TREE)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        pytest.param("x = residual+x  # comment", [12], id="layout"),
        pytest.param("x = self.norm(...)", [5, 21, 25], id="several"),
        pytest.param("residual = x\nx = self.norm(...)\nx, weights = ...", [4], id="told-apart-by-what-follows"),
        pytest.param("residual = x\n...\nreturn ...", [4, 20], id="any-statements"),
        pytest.param("residual = x\nx = residual + x", [], id="not-next-to-each-other"),
        pytest.param("x, weights = self.attn(...)", [6], id="any-arguments"),
        pytest.param("x, weights = self.attn(..., mask=mask, hidden_states=x)", [6], id="keywords-in-any-order"),
        pytest.param("x, weights = self.attn(mask=mask, hidden_states=x)", [], id="not-all-keywords"),
        pytest.param("x, weights = self.attn(..., mask=None)", [], id="another-keyword"),
        pytest.param("positions = arange(..., device='cpu')", [15], id="quotes-and-annotation"),
        pytest.param("if mask is None:", [13], id="header"),
        pytest.param("if mask is None: ...", [], id="without-its-else"),
        pytest.param("if mask is None:\n    ...\nelse:\n    ...", [13], id="with-its-else"),
        pytest.param("if mask is None:\n    seen = 0\n    ...\nelse:\n    ...", [13], id="inner-statements"),
        pytest.param("if mask.dim() == 4:", [], id="an-elif-is-no-statement"),
        pytest.param("try:", [22], id="try"),
        pytest.param("$X = scale($X * 2, $X * 3)", [23], id="metavariable"),
        pytest.param("$X = scale($Y * 2, $Z * 2)", [], id="metavariables-and-constants"),
        pytest.param("$X = scale($X * 2, $X)", [], id="another-expression"),
        pytest.param("return ...", [26], id="any-expression"),
        pytest.param("def forward(self, x, mask=None, **kwargs):", [2], id="definition"),
    ],
)
def test_statements_are_found_by_what_they_say(pattern: str, expected: list[int]) -> None:
    assert lines(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("x.size(...)", ["x.size(0)", "x.size(1)"]),
        ("$A.size(1)", ["x.size(1)"]),
        ("x * $N", ["x * 2", "x * 3"]),
        ("mask[...]", ["mask[..., 0]"]),
        ('"x": x', ["'x'"]),
        ("'shape': (..., $LAST)", ["'shape'"]),
        ('"x": y', []),
        ("(x.size(0), ...)", ["(x.size(0), x.size(1), 1)"]),
        ("{'x': ..., 'shape': $S}", ["{'x': x, 'shape': (x.size(0), x.size(1), 1)}"]),
        ("(seen)", ["seen", "seen"]),
    ],
)
def test_expressions_are_found_by_what_they_say(pattern: str, expected: list[str]) -> None:
    assert expressions(pattern) == expected


def test_a_match_tells_what_metavariables_and_arguments_stand_for() -> None:
    pattern = parse_pattern("$F(..., use_cache=$U)")
    assert pattern.expression is not None
    (match,) = find_expressions(pattern, TREE)
    assert {name: ast.unparse(node) for name, node in match.names.items()} == {"F": "self.attn", "U": "True"}
    assert match.calls[id(pattern.expression)] is match.nodes[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = = 1", "not valid Python"),
        ("", "empty"),
        ("# nothing", "empty"),
        ("...\nx = 1", "must not start or end"),
        ("x = 1\n...", "must not start or end"),
        ("else:", "start with the 'if'"),
        ("elif x:", "start with the 'if'"),
        ("except ValueError:", "start with the 'if', 'try'"),
    ],
)
def test_a_text_that_is_no_pattern_says_why(text: str, why: str) -> None:
    with pytest.raises(PatternError, match=why):
        parse_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("residual = hidden + residual", [12]),
        ("x, weight = self.attention(...)", [6]),
        ("self.attend(mask=mask)", [6]),
        ("completely.different = [of, all]", []),
    ],
)
def test_the_nearest_code_is_what_reads_alike(pattern: str, expected: list[int]) -> None:
    nearest = [node.lineno for node in nearest_code(parse_pattern(pattern), TREE)]
    assert set(expected) <= set(nearest)
    assert bool(nearest) is bool(expected)
