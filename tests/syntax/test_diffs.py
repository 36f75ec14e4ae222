"""Unified diffs as they are read."""

from __future__ import annotations

from patchgen_core.syntax.diffs import FileDiff, Line, added_lines, parse_diff, unified_diff


def diff_of(old: str, new: str) -> str:
    return unified_diff(old, new, "a.py", "b.py")


def lines(file: FileDiff) -> list[Line]:
    return [line for hunk in file.hunks for line in hunk.lines]


def test_lines_that_look_like_file_names_are_lines_of_the_hunk() -> None:
    (file,) = parse_diff(diff_of("a\n-- x\n@@ -1 +1 @@\nb\n", "a\n++ y\nb\n"))
    assert [(line.kind, line.text, line.old, line.new) for line in lines(file)] == [
        (" ", "a", 1, 1),
        ("-", "-- x", 2, 0),
        ("-", "@@ -1 +1 @@", 3, 0),
        ("+", "++ y", 0, 2),
        (" ", "b", 4, 3),
    ]


def test_several_files() -> None:
    second = unified_diff("x\n", "", "c.py", "d.py")
    found = parse_diff(diff_of("", "x\n") + second)
    assert [(file.old, file.new) for file in found] == [("a.py", "b.py"), ("c.py", "d.py")]
    assert [lines(file) for file in found] == [[Line("+", "x", 0, 1)], [Line("-", "x", 1, 0)]]


def test_numbers_go_on_in_the_next_hunk() -> None:
    old = [f"line {number}" for number in range(1, 41)]
    new = [*old[:5], "one more", *old[5:29], "other", *old[30:]]
    (file,) = parse_diff(diff_of("\n".join(old), "\n".join(new)))
    assert len(file.hunks) == 2
    for line in lines(file):
        assert not line.old or old[line.old - 1] == line.text
        assert not line.new or new[line.new - 1] == line.text
        assert (bool(line.old), bool(line.new)) == (line.kind != "+", line.kind != "-")


def test_empty_lines_count_also_where_an_editor_took_their_space() -> None:
    diff = diff_of("a\n\nb\n", "a\n\nc\n").replace("\n \n", "\n\n")
    (file,) = parse_diff(diff)
    assert lines(file) == [Line(" ", "a", 1, 1), Line(" ", "", 2, 2), Line("-", "b", 3, 0), Line("+", "c", 0, 3)]


def test_last_lines_without_newline_are_lines_like_any_other() -> None:
    first, second = parse_diff(diff_of("a\nb", "a\nc") + diff_of("d\n", "e\n"))
    code = [line for line in lines(first) if line.kind != "\\"]
    assert code == [Line(" ", "a", 1, 1), Line("-", "b", 2, 0), Line("+", "c", 0, 2)]
    assert lines(second) == [Line("-", "d", 1, 0), Line("+", "e", 0, 1)]


def test_added_lines_are_numbered_as_in_the_new_text() -> None:
    old = [f"line {number}" for number in range(40)]
    new = ["first", *old[:20], "+++ other", *old[21:]]
    assert list(added_lines(diff_of("\n".join(old), "\n".join(new)))) == [1, 22]
