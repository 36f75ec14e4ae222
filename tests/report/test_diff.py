"""Unified diffs as people read them: parsed, folded, and rendered for a terminal."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterator
from itertools import dropwhile, groupby
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from patchgen_core.checks.result import CheckResult, FileDifference
from patchgen_core.report.diff import Fold, FoldedDiff, FoldedHunk, fold, plain_diff, rich_diff
from patchgen_core.report.gate.details import print_details
from patchgen_core.syntax.diffs import FileDiff, Line, parse_diff, unified_diff

ZOO = Path(__file__).parents[2] / "examples/zoo"
KINDS = {"red": "-", "green": "+"}


def diff_of(old: str, new: str) -> str:
    return unified_diff(old, new, "a.py", "b.py")


def lines(file: FileDiff | FoldedDiff) -> list[Line]:
    """The lines that a file shows."""
    hunks = [hunk for hunk in file.hunks if not isinstance(hunk, Fold)]
    return [line for hunk in hunks for line in hunk.lines if isinstance(line, Line)]


def folds(file: FoldedDiff) -> list[Fold]:
    inner = [part for hunk in file.hunks if isinstance(hunk, FoldedHunk) for part in hunk.lines]
    return [part for part in (*inner, *file.hunks) if isinstance(part, Fold)]


def terminal(width: int = 80, colours: bool = True) -> Console:
    return Console(
        file=io.StringIO(), width=width, force_terminal=colours, color_system="standard" if colours else None
    )


def shown(diff: str, width: int = 80, folded: bool = False) -> list[str]:
    """The lines of a rendered diff, without colours."""
    console = terminal(width, colours=False)
    with console.capture() as capture:
        console.print(rich_diff(diff, folded))
    return capture.get().splitlines()


def segments(diff: str) -> Iterator[list[Segment]]:
    """The parts of each line that a colour terminal shows, after the names of the file."""
    console = terminal(200)
    yield from list(Segment.split_lines(console.render(rich_diff(diff))))[2:]


def highlights(diff: str) -> list[tuple[str, str]]:
    """The words that stand out, each with the sign of its line."""
    found = []
    for line in segments(diff):
        colours = ((s.style.bgcolor.name if s.style and s.style.bgcolor else "", s.text) for s in line)
        for colour, parts in groupby(colours, key=lambda part: part[0]):
            if colour in KINDS:
                found.append((KINDS[colour], "".join(text for _, text in parts)))
    return found


# --- folding ---------------------------------------------------------------------------------------


def test_long_hunk_keeps_its_head_and_tail_and_counts_the_rest() -> None:
    (whole,) = parse_diff(
        diff_of("".join(f"old {n}\n" for n in range(300)), "".join(f"new {n}\n" for n in range(500)))
    )
    folded = fold(whole)
    (gap,) = folds(folded)
    (hunk,) = folded.hunks
    assert isinstance(hunk, FoldedHunk)
    place = hunk.lines.index(gap)
    assert [*hunk.lines[:place], *gap.lines, *hunk.lines[place + 1 :]] == lines(whole)
    assert place > 10
    assert lines(folded)[-1] == Line("+", "new 499", 0, 500)
    removed, added = (sum(line.kind == kind for line in lines(folded)) for kind in "-+")
    assert str(gap) == f"[{800 - removed - added} more lines: {300 - removed} removed, {500 - added} added]"


def test_many_hunks_show_the_first_and_count_the_rest() -> None:
    old = [f"line {n}\n" for n in range(1000)]
    new = [f"{line}new\n" if n % 10 == 5 else line for n, line in enumerate(old)]
    (whole,) = parse_diff(diff_of("".join(old), "".join(new)))
    folded = fold(whole)
    (gap,) = folds(folded)
    assert folded.hunks[-1] is gap
    assert [*lines(folded), *gap.lines] == lines(whole)
    assert f" in {len(whole.hunks) - len(folded.hunks) + 1} hunks: 0 removed, " in str(gap)


def test_what_is_short_is_not_folded() -> None:
    old = "".join(f"line {n}\n" for n in range(30))
    diff = diff_of(old, old.replace("line 1", "line one "))
    for file in parse_diff(diff):
        assert folds(fold(file)) == []
        assert lines(fold(file)) == lines(file)
    assert plain_diff(diff, folded=True).plain == plain_diff(diff).plain == diff


def test_a_fold_takes_less_room_than_what_it_leaves_out() -> None:
    for length in range(40, 120):
        (file,) = parse_diff(diff_of("", "new\n" * length))
        assert all(len(gap.lines) > 1 for gap in folds(fold(file))), f"one line of {length} is folded"


def test_folded_plain_text_is_the_full_text_with_gaps() -> None:
    old = "".join(f"line {n}\n" for n in range(400))
    diff = diff_of(old, old.replace("line 1", "line one ")) + diff_of("x\n", "y\n")
    full, folded = plain_diff(diff).plain.splitlines(), plain_diff(diff, folded=True).plain.splitlines()
    assert full == diff.splitlines()
    assert len(folded) < len(full)
    rest = iter(full)
    assert all(line in rest for line in folded if not line.startswith("["))
    assert folded[-5:] == full[-5:]


@pytest.mark.parametrize("folded", [False, True])
def test_missing_newline_at_the_end_is_said(folded: bool) -> None:
    diff = diff_of("a\nb", "a\nb\n")
    assert "No newline at end of file" in plain_diff(diff, folded).plain
    assert "No newline at end of file" in "\n".join(shown(diff, folded=folded))


def test_plain_colours_go_by_the_kind_of_a_line() -> None:
    text = plain_diff(diff_of("-- x\nb\n", "++ y\nb\n"))
    styles = {text.plain[span.start : span.end].rstrip("\n"): str(span.style) for span in text.spans}
    assert (styles["--- a.py"], styles["+++ b.py"]) == ("bold", "bold")
    assert (styles["--- x"], styles["+++ y"]) == ("red", "green")


# --- the words that changed ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("return x * 2", "return y * 2", [("-", "x"), ("+", "y")]),
        ("return g(a, b)", "return g(b, a)", [("-", "a"), ("-", "b"), ("+", "b"), ("+", "a")]),
        ("f(a, b)", "f(a, b, c)", [("+", ", c")]),
        ("f(\n    a,\n)", "f(\n    a,\n    b=1,\n)", []),
        ("f(a, b)", "f(\n    a,\n    b,\n)", [("+", ",")]),
        ("x = 1\ny = 2\nz = 3", "x = 1\nz = 4", [("-", "y = 2"), ("-", "3"), ("+", "4")]),
        ("value = compute(first)", "for item in other: print(item)", []),
        ("    return x", "        return x", []),
        ("\tcall(x, y, z)", "\tcall(x, q, z)", [("-", "y"), ("+", "q")]),
        ("s = '\f' + f(x, y, z)", "s = '\f' + f(x, q, z)", [("-", "y"), ("+", "q")]),
        ("s = '日本語' + f(x, y)", "s = '日本語' + f(x, z)", [("-", "y"), ("+", "z")]),
    ],
    ids=[
        "one word",
        "moved arguments",
        "argument added",
        "line added",
        "one line to four",
        "two lines to one",
        "rewritten",
        "indented",
        "tab",
        "form feed",
        "wide characters",
    ],
)
def test_words_that_changed_stand_out(old: str, new: str, expected: list[tuple[str, str]]) -> None:
    found = [(kind, text) for kind, text in highlights(diff_of(f"{old}\n", f"{new}\n")) if not text.isspace()]
    assert found == expected


def test_indentation_alone_does_not_stand_out() -> None:
    assert highlights(diff_of("    return x\n", "        return x\n")) == []


def test_words_stand_out_in_a_long_block_of_lines_that_are_alike() -> None:
    old = [f"    value_{n} = compute(self, value, self.weight_{n}, value)\n" for n in range(20)]
    new = [line.replace("compute", "apply") for line in old]
    expected = [("-", "compute")] * 20 + [("+", "apply")] * 20
    assert highlights(diff_of("".join(old), "".join(new))) == expected


def test_trailing_whitespace_that_was_added_stands_out() -> None:
    assert highlights(diff_of("a = 1\n", "a = 1  \n")) == [("+", "  ")]


def test_code_has_syntax_colours() -> None:
    colours = {
        segment.text: segment.style.color.name
        for line in segments(diff_of("", "return 'text' + other\n"))
        for segment in line
        if segment.style and segment.style.color
    }
    assert colours.keys() >= {"return", "'", "+"}
    assert len({colours["return"], colours["'"], colours["+"]}) == 3


# --- the whole of it -------------------------------------------------------------------------------


def edited(text: str, rng: random.Random) -> str:
    """A text with some of its lines changed, moved, repeated or taken out."""
    rows = text.split("\n")
    for _ in range(rng.randint(1, 30)):
        at = rng.randrange(len(rows))
        kind = rng.randrange(5)
        if kind == 0:
            del rows[at : at + rng.randint(1, 4)]
        elif kind == 1:
            rows.insert(at, rng.choice(["", "\tx = 'ü日本'", "    pass  # " + "long " * 60, "x" * 300]))
        elif kind == 2:
            rows[at] = re.sub(r"\w+", lambda match: rng.choice([match[0], "other"]), rows[at])
        elif kind == 3:
            rows[at:at] = rows[at : at + rng.randint(1, 60)]
        else:
            rows[at : at + 2] = reversed(rows[at : at + 2])
        rows = rows or [""]
    return "\n".join(rows)


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


def read_back(rows: list[str], diff: str) -> list[tuple[str, str, str]]:
    """The numbers, signs and code of each line that a rendered diff shows, without whitespace."""
    ends = [[line.old for line in lines(parse_diff(diff)[0])], [line.new for line in lines(parse_diff(diff)[0])]]
    start = sum(len(str(max(numbers))) + 1 for numbers in ends)
    found: list[tuple[str, str, str]] = []
    for row in dropwhile(lambda row: not squeezed(row[:start]).isdigit(), rows):
        numbers, sign, code = squeezed(row[:start]), row[start : start + 1], squeezed(row[start + 2 :])
        if numbers:
            found.append((numbers, sign, code))
        elif code != "...":
            found[-1] = (*found[-1][:2], found[-1][2] + code)
    return found


def without_ends(found: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Without an ellipsis at the end of a line: folded into a row of its own, it looks like one between hunks."""
    return [(numbers, sign, code.removesuffix("...")) for numbers, sign, code in found]


MODELS = ("qwen3", "llama", "qwen3_moe", "qwen3_vl_moe")
"""Those of the zoo whose diffs are rendered: short and long ones, of a language model and of one with pictures."""
RENDERED = [(40, MODELS[:1]), *(pytest.param(width, MODELS, marks=pytest.mark.slow) for width in (40, 80, 200))]


@pytest.mark.parametrize(("width", "models"), RENDERED)
@pytest.mark.slow
def test_rendered_diffs_fit_the_width_and_lose_nothing(width: int, models: tuple[str, ...]) -> None:
    rng = random.Random(width)
    source = (ZOO / "qwen3/generated/patched_modeling_qwen3_gpu.py").read_text(encoding="utf-8")
    stored = [path.read_text(encoding="utf-8") for model in models for path in ZOO.glob(f"{model}/generated/*.diff")]
    for diff in [*stored, *(diff_of(source, edited(source, rng)) for _ in range(3))]:
        rows = shown(diff, width)
        assert max(map(cell_len, rows)) <= width
        expected = [
            (f"{line.old or ''}{line.new or ''}", line.kind, squeezed(line.text))
            for line in lines(parse_diff(diff)[0])
        ]
        assert without_ends(read_back(rows, diff)) == without_ends(expected)
        changed = [(row[0], squeezed(row[1:])) for row in diff.split("\n")[2:] if row[:1] in ("+", "-")]
        assert [(sign, code) for _, sign, code in expected if sign != " "] == changed
        coloured = terminal(width)
        with coloured.capture() as capture:
            coloured.print(rich_diff(diff, folded=False))
        assert Text.from_ansi(capture.get()).plain.split() == "\n".join(rows).split()


def test_hunks_are_apart() -> None:
    old = "".join(f"line {n}\n" for n in range(60))
    rows = shown(diff_of(old, old.replace("line 1\n", "x\n").replace("line 50\n", "x\n")))
    assert [row.strip() for row in rows].count("...") == 1


def test_indentation_is_kept() -> None:
    rows = shown(diff_of("def f():\n    if x:\n        return 1\n", "def f():\n    if x:\n        return 2\n"))
    assert "  3 +         return 2" in [row.rstrip() for row in rows]


def test_without_colours_there_is_no_escape_code() -> None:
    diff = diff_of("x = 1\n" * 100, "y = 2\n" * 100)
    assert "\x1b" not in "\n".join(shown(diff, folded=True))
    console = terminal(colours=False)
    with console.capture() as capture:
        console.print(plain_diff(diff))
    assert capture.get().rstrip("\n") == diff.rstrip("\n")


def test_control_characters_in_code_do_not_reach_the_terminal() -> None:
    rows = shown(diff_of("x = 1\n", "x = '\x1b[2J\x07\x08'\n"), folded=True)
    assert not re.search(r"[\x00-\x1f\x7f]", "".join(rows))


def test_a_result_is_folded_in_a_pipe_unless_all_is_asked_for() -> None:
    diff = diff_of("".join(f"old {n}\n" for n in range(300)), "".join(f"new {n}\n" for n in range(500)))
    result = CheckResult(status="drifted", files=(FileDifference("a.py", False, diff, diff),))
    for verbose in (False, True):
        console = Console(file=io.StringIO(), width=80)
        print_details(console, result, verbose)
        assert isinstance(console.file, io.StringIO)
        assert ("more lines: " in console.file.getvalue()) != verbose
