"""Replacements that were carried over are written into the configs, and nothing else changes."""

from __future__ import annotations

from patchgen_core.upgrade.writing.applying import apply
from tests.conftest import PREAMBLE, generated
from tests.upgrade.applied import NEW_NORM, NEW_ROTATE, NORM, ROTATE, changed_lines, file
from tests.upgrade.upgraded import Upgrading, reasons


class TestTexts:
    """What changes in a file."""

    def test_only_the_lines_that_differ(self, norm: Upgrading) -> None:
        before = file(norm).read_text()
        applied = norm.apply({"Norm.forward": NEW_NORM})
        assert changed_lines(before, file(norm).read_text()) == [
            "-from acme.models.toy.parts import scale  # noqa: F401",
            "+from acme.models.toy.modeling_toy import limit",
            "+from acme.models.toy.parts import gain, scale  # noqa: F401",
            "-    x = scale(x)",
            "+    x = limit(scale(x))",
            "+    x = gain(x)",
        ]
        assert applied.written == (file(norm),)
        assert [rebase.location.line for rebase in applied.merged] == [11]
        assert not applied.left
        assert not applied.problems

    def test_white_space_stays(self, upgrading: Upgrading) -> None:
        path = upgrading.work.config(NORM)
        path.write_text(path.read_text().replace("scale(x)\n\n", "scale(x)\n   \n"))
        assert not upgrading.apply({"Norm.forward": NEW_NORM}).left
        assert "    x = gain(x)\n   \n    return" in path.read_text()

    def test_the_generated_files_are_those_of_the_release(self, norm: Upgrading) -> None:
        module, diff = generated(norm.work), generated(norm.work, ".diff")
        assert norm.apply({"Norm.forward": NEW_NORM}).generated == (module, diff)
        assert "Based on: acme==2.0" in module.read_text()
        assert "return (x + self.eps) * 2" in module.read_text()
        assert norm.drift().exit_code == 0

    def test_the_diff_that_the_gate_asks_for_is_made_where_there_was_none(self, norm: Upgrading) -> None:
        generated(norm.work, ".diff").unlink()
        norm.apply({"Norm.forward": NEW_NORM})
        assert generated(norm.work, ".diff").is_file()

    def test_newlines_and_encoding_stay(self, upgrading: Upgrading) -> None:
        path = file(upgrading)
        path.parent.mkdir(parents=True)
        text = f"# -*- coding: latin-1 -*-\n# caf\xe9{PREAMBLE}{NORM}".rstrip("\n")
        path.write_bytes(text.replace("\n", "\r\n").encode("latin-1"))
        upgrading.generate()
        assert not upgrading.apply({"Norm.forward": NEW_NORM.replace("*   2", "*   3")}).left
        data = path.read_bytes()
        assert data.count(b"\n") == data.count(b"\r\n") == text.count("\n") + 2
        assert b"caf\xe9\r\n" in data
        assert b"\r\n    x = limit(scale(x))\r\n    x = gain(x)\r\n\r\n" in data
        assert data.endswith(b"*   3")

    def test_what_the_encoding_lacks_is_left(self, upgrading: Upgrading) -> None:
        path = upgrading.work.config(NORM, preamble=f"# coding: ascii{PREAMBLE}")
        before = path.read_bytes()
        applied = upgrading.apply({"Norm.forward": NEW_NORM.replace("doubled", "\u00d72")})
        assert reasons(applied) == ["its encoding, ascii, lacks '\u00d7'"]
        assert path.read_bytes() == before

    def test_a_byte_order_mark_stays(self, upgrading: Upgrading) -> None:
        path = upgrading.work.config(NORM, preamble=f"\ufeff{PREAMBLE.strip()}")
        assert not upgrading.apply({"Norm.forward": NEW_NORM}).left
        assert path.read_text(encoding="utf-8").startswith("\ufefffrom patchgen")
        assert path.read_text(encoding="utf-8-sig").isascii()

    def test_a_replacement_inside_a_block_keeps_its_indentation(self, upgrading: Upgrading) -> None:
        text = '''
        import sys

        if sys.version_info:

            @config.override_method("Norm.forward")
            def norm_forward(self, x):
                """Scaled,
            and told."""
                print("""a
          b""")
                return x
        '''
        new = '''
def norm_forward(self, x):
    """Scaled,
    and told."""
    print("""a
  b""")
    print("""c
d""")
    return x
'''
        path = upgrading.work.config(text)
        upgrading.generate()
        before = path.read_text()
        assert not upgrading.apply({"Norm.forward": new}).left
        assert changed_lines(before, path.read_text()) == ['+        print("""c', '+d""")']
        assert upgrading.drift().exit_code == 0

    def test_own_decorators_change_and_those_that_declare_stay(self, upgrading: Upgrading) -> None:
        text = """
        from acme.models.toy.parts import cached


        @cached
        # the patch
        @config.replace_function("rotate")
        @cached(
            2,
        )
        def my_rotate(x, size):
            return -x
        """
        path = upgrading.work.config(text)
        before = path.read_text()
        assert not upgrading.apply({"rotate": "@timed(3)\ndef my_rotate(x, size):\n    return -x"}).left
        assert changed_lines(before, path.read_text()) == [
            "-from acme.models.toy.parts import cached",
            "+from acme.models.toy.parts import timed",
            "-@cached",
            "-@cached(",
            "-    2,",
            "-)",
            "+@timed(3)",
        ]

    def test_a_class_and_a_function_of_one_file(self, upgrading: Upgrading) -> None:
        text = """
        @config.replace_class("Norm")
        class MyNorm:
            # kept

            def forward(self, x):
                return x
        """
        path = upgrading.work.config(text + ROTATE.replace("\n", "\n        "))
        new = "class MyNorm:\n    # kept\n\n    def forward(self, x, y):\n        return y\n"
        applied = upgrading.apply({"Norm": new, "rotate": NEW_ROTATE})
        assert len(applied.merged) == 2
        assert new in path.read_text()
        assert "\nimport math\n" in path.read_text()

    def test_what_was_edited_meanwhile_is_left(self, norm: Upgrading) -> None:
        report = norm.report({"Norm.forward": NEW_NORM})
        path = file(norm)
        path.write_text(path.read_text().replace("doubled ---", "twice ---"))
        before = path.read_text()
        applied = apply(norm.work.project, report, norm.release, allow_dirty=True)
        assert reasons(applied) == [f"line 11 of '{path}' has different text now"]
        assert path.read_text() == before
