"""What an upgrade found out: on a terminal, as Markdown for a pull request, as JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from patchgen_core.errors import Location, Problem
from patchgen_core.report.upgrade.json import upgrade_data
from patchgen_core.report.upgrade.markdown import LIMIT, upgrade_markdown
from patchgen_core.report.upgrade.steps import next_steps
from patchgen_core.report.upgrade.terminal import print_steps, print_upgrade
from patchgen_core.upgrade.results import (
    ConfigVerdict,
    Conflict,
    Finding,
    Merged,
    PatchVerdict,
    Rebase,
    UpgradeReport,
)

DIFF = """--- transformers 5.16.1
+++ transformers 5.23.0
@@ -10,3 +10,3 @@ ToyAttention.forward
     def forward(self, x):
-        return x
+        return x + 1
"""
OURS = "@decorated\ndef forward(self, x):\n    return 2 * x"


def place(line: int) -> Location:
    return Location("/project/models/toy_gpu_patch_gen_config.py", line)


def patch(target: str = "ToyMLP.forward", line: int = 7, **more: Any) -> PatchVerdict:
    finding = Finding("unchanged", target, "target")
    values = {"verdict": "unchanged", "risk": "safe", "findings": (finding,), **more}
    return PatchVerdict("override_method", target, "why it is there", place(line), **values)


def changed(target: str = "ToyAttention.forward", line: int = 20, **more: Any) -> PatchVerdict:
    finding = Finding("changed", target, "target", risk="review", diff=DIFF)
    return patch(target, line, **{"verdict": "changed", "risk": "review", "findings": (finding,), **more})


def rebase(*conflicts: Conflict, line: int = 21, **more: Any) -> Rebase:
    merged = Merged("def forward(self, x):\n    return 2 * x + 1", "syntax", conflicts)
    diff = "--- forward\n+++ forward (carried over)\n@@ -1,2 +1,2 @@\n def forward(self, x):\n-    2\n+    3\n"
    return Rebase(place(line), OURS, merged, diff, **more)


def config(name: str, *patches: PatchVerdict, risk: str = "safe", **more: Any) -> ConfigVerdict:
    path = "/project/models/toy_gpu_patch_gen_config.py"
    values = {"old": "5.16.1", "origin": "checked-in files", **more}
    return ConfigVerdict(name, path, 3, "transformers.toy", new="5.23.0", risk=risk, patches=patches, **values)


def report(*configs: ConfigVerdict, **more: Any) -> UpgradeReport:
    return UpgradeReport("transformers", "5.23.0", configs, origin="download", **more)


def printed(found: UpgradeReport, verbose: bool = False, command: str = "", **more: Any) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=100, highlight=False, markup=False, emoji=False, **more)
    print_upgrade(console, found, verbose)
    print_steps(console, found, next_steps(found), command, verbose)
    return stream.getvalue()


def markdown(found: UpgradeReport, more: Sequence[str] = ()) -> str:
    return upgrade_markdown(found, next_steps(found), more)


def full() -> UpgradeReport:
    """A report with something in every place."""
    caller = Finding("signature changed", "ToyLayer.forward", "caller", "it passes 'cache' now", "must change")
    target = Finding("changed", "ToyAttention.forward", "target", risk="review", diff=DIFF)
    wrong = Problem("'ToyLayer.forward' passes 'cache'", place(20), "Change the call.", "> 20 | def", code="PG202")
    conflict = Conflict(3, "both sides changed this expression", "return x", "return 2 * x", "return x + 1")
    bad = changed(risk="must change", findings=(target, caller), problems=(wrong,), rebase=rebase(conflict))
    gone = Finding("gone", "ToyNorm.forward", "target", "nothing like it is there", "must change")
    gone_patch = patch("ToyNorm.forward", 30, verdict="gone", risk="must change", findings=(gone,))
    merging = changed("ToyHead.forward", 40, rebase=rebase(line=41, needs=("from acme import <helper>",)))
    served = Finding("now upstream", "rotate", "target", risk="review")
    delete = patch("rotate", 50, verdict="now upstream", risk="review", findings=(served,))
    anchor = Finding("gone", "ToyOld", "anchor", "a helper follows it", "must change")
    own = Problem("upstream has no 'ToyOld'", place(3), "Did you mean 'ToyNew'?")
    return report(
        config(
            "acme.worst",
            bad,
            gone_patch,
            patch(),
            risk="must change",
            findings=(anchor,),
            problems=(wrong, own),
            notes=("no other module is known",),
        ),
        config("acme.middle", merging, delete, patch(), risk="review", old="5.9.0", origin="cache"),
        config("acme.fine", patch(), patch("ToyMLP.extra_repr", verdict="cosmetic")),
        skipped=("acme.other: its upstream is other, not transformers",),
    )


def test_headline_counts_the_configs_of_each_risk_and_says_where_texts_are_from() -> None:
    first, second = printed(full()).splitlines()[:2]
    assert first == "transformers 5.9.0, 5.16.1 → 5.23.0, 3 configs: 1 must change, 1 review, 1 safe to regenerate."
    old = "the checked-in files (2 configs) and the cache (1 config)"
    assert second == f"The old text is from {old}, the new from a downloaded wheel."
    same = report(config("acme.toy", patch(), origin="download"))
    assert printed(same).splitlines()[1] == "Old and new text are from a downloaded wheel."


def test_each_patch_that_is_not_safe_has_its_verdict_findings_problems_and_merge() -> None:
    text = printed(full())
    worst = text[text.index("must change  acme.worst") : text.index("review       acme.middle")]
    wanted = [
        "toy_gpu_patch_gen_config.py:20: override_method ToyAttention.forward: changed",
        "toy_gpu_patch_gen_config.py:20: error: PG202 'ToyLayer.forward' passes 'cache'",
        "Change the call.",
        "must change  caller ToyLayer.forward signature changed: it passes 'cache' now",
        "upstream's own change of ToyAttention.forward:",
        "+        return x + 1",
        "toy_gpu_patch_gen_config.py:22: both sides changed this expression",
        "<<<<<<< replacement\nreturn 2 * x\n||||||| upstream 5.16.1\nreturn x\n=======\nreturn x + 1\n>>>>>>> up",
        "toy_gpu_patch_gen_config.py:30: override_method ToyNorm.forward: gone",
        "safe         the other patches: 1 unchanged",
    ]
    found = [worst.find(line) for line in wanted]
    assert -1 not in found, wanted[found.index(-1)]
    assert found == sorted(found)
    middle = text[text.index("review       acme.middle") :]
    assert "merges       cleanly by syntax into /project/models/toy_gpu_patch_gen_config.py:41" in middle
    assert "adds         from acme import <helper>" in middle


def test_what_the_verdict_says_is_not_said_again_and_what_is_safe_only_on_demand() -> None:
    plain = Finding("changed", "ToyAttention.forward", "target", risk="review")
    told = replace(plain, detail="returns a tuple")
    safe = Finding("cosmetic", "ToyLayer.forward", "caller")
    found = report(
        config("acme.toy", changed(findings=(plain, safe)), changed(findings=(told,), line=60), risk="review")
    )
    for text in (printed(found), markdown(found)):
        assert text.count("ToyAttention.forward changed") == text.count(
            "ToyAttention.forward changed: returns a tuple"
        )
        assert text.count("changed: returns a tuple") > 0
        assert "ToyLayer" not in text
    assert "safe         caller ToyLayer.forward cosmetic" in printed(found, verbose=True)


def test_problem_of_a_patch_is_told_once() -> None:
    text = printed(full())
    assert text.count("error: PG202") == 1
    assert text.count("error: upstream has no 'ToyOld'") == 1


def test_what_is_safe_takes_one_line_unless_all_is_asked_for() -> None:
    assert "safe         acme.fine\n" in printed(full())
    assert "extra_repr" not in printed(full())
    verbose = printed(full(), verbose=True)
    assert "override_method ToyMLP.extra_repr: cosmetic" in verbose
    assert "the replacement, carried over:\n--- forward" in verbose
    assert "skipped      acme.other" in verbose


def test_diff_that_two_patches_are_about_is_shown_once() -> None:
    text = printed(report(config("acme.toy", changed(), changed(line=60), risk="review")))
    assert text.count("+        return x + 1") == 1
    assert "upstream's own change of ToyAttention.forward: as above" in text


def test_long_diffs_are_folded_unless_all_is_asked_for() -> None:
    body = "".join(f"+    added {number}\n" for number in range(200))
    long = f"--- a\n+++ b\n@@ -1,1 +1,201 @@\n def forward(self):\n{body}"
    finding = Finding("changed", "ToyAttention.forward", "target", risk="review", diff=long)
    found = report(config("acme.toy", changed(findings=(finding,)), risk="review"))
    assert "added 100" not in printed(found)
    assert "more lines" in printed(found)
    assert "added 100" in printed(found, verbose=True)


def test_next_steps_say_what_to_run_delete_change_and_merge() -> None:
    text = printed(full(), command="patchgen upgrade --to 5.23.0 --apply")
    steps = text[text.index("Run 'patchgen upgrade") :]
    assert steps.startswith("Run 'patchgen upgrade --to 5.23.0 --apply': it carries over 1 replacement, ")
    titles = [line for line in steps.splitlines() if line.endswith(":")]
    assert titles == [
        "Delete these patches: upstream does the same now:",
        "Change these patches: they no longer fit:",
        "Merge these by hand (--apply --markers marks the places):",
    ]
    parts = dict(zip(titles, re.split("|".join(map(re.escape, titles)), steps)[1:]))
    assert ":50: rotate: now upstream" in parts[titles[0]]
    assert ":30: ToyNorm.forward: gone" in parts[titles[1]]
    assert ":3: upstream has no 'ToyOld'" in parts[titles[1]]
    assert ":20: ToyAttention.forward: 1 conflict" in parts[titles[2]]


def test_patch_whose_merge_is_clean_and_all_there_is_needs_no_step() -> None:
    found = report(config("acme.toy", changed(rebase=rebase()), risk="review"))
    assert printed(found).count("ToyAttention.forward: changed") == 1
    alike = Finding("new code", "ToySecond", "alike", "like the target", "review")
    more = changed(rebase=rebase(), findings=(Finding("changed", "x", "target", risk="review"), alike))
    assert "Look at these:" in printed(report(config("acme.toy", more, risk="review")))


def test_nothing_new_is_said_as_such() -> None:
    text = printed(report(config("acme.toy", patch(), old="5.23.0")), command="patchgen upgrade --to latest --apply")
    assert text.splitlines()[0] == "transformers 5.23.0, 1 config: 1 safe to regenerate."
    assert text.endswith("The generated files are of transformers 5.23.0 already.\n")
    assert "--apply" not in text


def test_terminal_without_colours_says_the_same() -> None:
    plain = printed(full())
    coloured = printed(full(), force_terminal=True, color_system="truecolor")
    assert "\x1b[" in coloured
    for word in ("must change  acme.worst", "review       acme.middle", "error: PG202"):
        assert word in plain
        assert word in re.sub(r"\x1b\[[\d;]*m", "", coloured)


# --- markdown --------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Whether every fold is closed, what their titles say, and the text that is no code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.titles, self.tags, self.prose = [], set[str](), [""]
        self.feed(rendered(text))

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "summary":
            self.titles.append(data)
        if not {"code", "pre"} & set(self.open):
            self.prose.append(data)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def rendered(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_markdown_has_the_summary_the_steps_a_table_and_a_fold_for_each_config() -> None:
    text = markdown(full(), ["Applied: *this*."])
    assert text.startswith("### transformers 5.9.0, 5.16.1 → 5.23.0\n\n1 must change, 1 review, 1 safe to regenerate.")
    assert text.index("Applied: *this*.") < text.index("**Delete these") < text.index("| risk | config | patches |")
    assert "| must change | `acme.worst` | 1 changed, 1 gone, 1 unchanged |" in text
    page = Page(text)
    assert page.open == []
    assert page.titles[:2] == [
        "must change: acme.worst (1 changed, 1 gone, 1 unchanged)",
        "review: acme.middle (1 changed, 1 now upstream, 1 unchanged)",
    ]
    fences = [token for token in MarkdownIt().parse(text) if token.type == "fence"]
    assert {"diff", ""} == {token.info for token in fences}
    assert any("+        return x + 1" in token.content for token in fences if token.info == "diff")


HOSTILE = "</details><script>x</script> ``` | @auto_docstring `code` <b>"


def test_markdown_shows_text_as_it_is() -> None:
    finding = Finding("changed", HOSTILE, "used", HOSTILE, "review", DIFF.replace("return x", f"``` {HOSTILE}"))
    hostile = changed(
        HOSTILE, findings=(finding,), rebase=rebase(Conflict(3, HOSTILE, f"```\n{HOSTILE}", HOSTILE, HOSTILE))
    )
    problem = Problem(HOSTILE, place(1), HOSTILE, f"x\n```\n{HOSTILE}\n```")
    whole = config(HOSTILE, hostile, risk="review", notes=(HOSTILE,), problems=(problem,), findings=(finding,))
    text = markdown(report(whole, skipped=(HOSTILE,)))
    page = Page(text)
    assert page.open == []
    assert not page.tags & {"script", "b"}
    assert not [data for data in page.prose if "@auto_docstring" in data]
    assert sum(HOSTILE in "".join(token.content.split("\n")) for token in MarkdownIt().parse(text)) >= 4


@pytest.mark.parametrize("count", [3, 60, 900])
def test_markdown_fits_what_github_takes(count: int) -> None:
    body = "".join(f"+    added {number} {'x' * 80}\n" for number in range(40))
    long = f"--- a\n+++ b\n@@ -1,1 +1,41 @@\n def forward(self):\n{body}"
    finding = Finding("changed", "ToyAttention.forward", "target", risk="review", diff=long)
    configs = [config(f"acme.toy_{n}", changed(findings=(finding,)), risk="review") for n in range(count)]
    text = markdown(report(*configs))
    assert len(text) <= LIMIT
    assert Page(text).open == []
    assert ("This text is shortened" in text) == (count > 3)
    assert text.index("+    added 7 ") < text.index("review: acme.toy_2 ")
    assert text.index("acme.toy_0") < text.index("acme.toy_1")


# --- data ------------------------------------------------------------------------------------------


def test_data_holds_everything_with_the_line_of_each_conflict() -> None:
    data = json.loads(json.dumps(upgrade_data(full())))
    assert (data["schema"], data["exit_code"], data["old"], data["version"]) == (1, 1, ["5.9.0", "5.16.1"], "5.23.0")
    worst = data["configs"][0]
    assert (worst["risk"], worst["origin"], worst["notes"]) == (
        "must change",
        "checked-in files",
        ["no other module is known"],
    )
    first = worst["patches"][0]
    assert first["findings"][0]["upstream_diff"] == DIFF
    assert first["errors"][0]["code"] == "PG202"
    assert first["merge"]["clean"] is False
    assert first["merge"]["conflicts"][0]["line"] == 22
    assert data["configs"][1]["patches"][0]["merge"]["imports"] == ["from acme import <helper>"]
    assert data["skipped"] == ["acme.other: its upstream is other, not transformers"]


def test_config_that_cannot_be_loaded_is_told_everywhere() -> None:
    problem = Problem("cannot be loaded", place(2), "Mend it.")
    found = replace(report(config("acme.toy", patch())), failed=(problem,))
    assert found.exit_code == 2
    assert "toy_gpu_patch_gen_config.py:2: error: cannot be loaded" in printed(found)
    assert "cannot be loaded" in markdown(found)
    assert upgrade_data(found)["errors"][0]["message"] == "cannot be loaded"
