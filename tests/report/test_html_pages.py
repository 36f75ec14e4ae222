"""The HTML pages without a browser: one file, sound structure, nothing from a network, everything escaped."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from patchgen_core.cli.main import main
from patchgen_core.report.gate.formats import write_report
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.html.diffs import diff_view
from patchgen_core.report.html.figures import figures_view, layers_plot
from patchgen_core.report.html.markup import Markup, tag
from patchgen_core.report.matrix.html import write_matrix
from patchgen_core.report.upgrade.html import write_upgrade
from tests.conftest import PATCH, PREAMBLE, Workspace
from tests.report import report_samples as samples

VOID = {"br", "input", "meta", "link", "hr", "img"}
WRITERS: dict[str, Callable[[Path], None]] = {
    "gate": lambda path: write_report(samples.gate_report(), path, samples.ROOT),
    "upgrade": lambda path: write_upgrade(samples.upgrade_report(), path),
    "matrix": lambda path: write_matrix(samples.matrix_report(), path),
}


class Tree(HTMLParser):
    """Elements with their attributes and text; elements that are not closed, or closed twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[int, str] = {}
        self.open: list[tuple[str, int]] = []
        self.unbalanced: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attrs)))
        if name not in VOID:
            self.open.append((name, len(self.elements) - 1))

    def handle_endtag(self, name: str) -> None:
        if self.open and self.open[-1][0] == name:
            self.open.pop()
        else:
            self.unbalanced.append(name)

    def handle_data(self, data: str) -> None:
        for _, number in self.open:
            self.texts[number] = self.texts.get(number, "") + data

    def all(self, name: str, **attributes: str) -> list[dict[str, str | None]]:
        return [own for found, own in self.elements if found == name and attributes.items() <= own.items()]

    def text(self, name: str, **attributes: str) -> list[str]:
        numbers = [n for n, (f, own) in enumerate(self.elements) if f == name and attributes.items() <= own.items()]
        return [self.texts.get(number, "") for number in numbers]


@pytest.fixture(scope="module", params=sorted(WRITERS))
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pages") / "new folder" / f"{request.param}.html"
    WRITERS[request.param](path)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tree(page: str) -> Tree:
    return Tree(page)


# --- all pages -------------------------------------------------------------------------------------


def test_elements_are_closed_and_ids_are_unique(tree: Tree) -> None:
    assert not tree.unbalanced
    assert not tree.open
    ids = Counter(own["id"] for _, own in tree.elements if "id" in own)
    assert ids.most_common(1)[0][1] == 1


def test_references_lead_somewhere(tree: Tree) -> None:
    ids = {own["id"] for _, own in tree.elements if "id" in own}
    for _, own in tree.elements:
        for name in ("aria-labelledby", "aria-describedby", "data-of"):
            assert {own[name]} <= ids if own.get(name) else True
        href = own.get("href") or ""
        assert href.startswith("data:image/svg+xml,") or not href or href[1:] in ids


def test_headings_go_down_one_step_at_a_time(tree: Tree) -> None:
    levels = [int(name[1]) for name, _ in tree.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_landmarks_and_names(tree: Tree) -> None:
    for name in ("header", "main", "footer", "h1"):
        assert len(tree.all(name)) == 1, name
    assert tree.all("html", lang="en")
    assert tree.elements[[name for name, _ in tree.elements].index("body") + 1] == (
        "a",
        {"href": "#results", "class": "skip"},
    )
    assert all(own.get("scope") for own in tree.all("th"))
    assert len(tree.text("caption")) == len(tree.all("table"))
    assert all(tree.text("caption"))


def test_nothing_comes_from_a_network_and_only_its_own_style_and_script_count(page: str, tree: Tree) -> None:
    assert not [own for _, own in tree.elements if "src" in own or "style" in own or "srcset" in own]
    assert not re.findall(r"url\(|@import|fetch\(|XMLHttpRequest|localStorage", page)
    [policy] = [own["content"] for own in tree.all("meta") if own.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for name in ("style", "script"):
        [text] = tree.text(name)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert not [key for _, own in tree.elements for key in own if key.startswith("on")]


def test_hostile_text_stays_text(page: str, tree: Tree) -> None:
    assert len(tree.all("script")) == 1
    assert not tree.all("img")
    assert samples.HOSTILE not in page
    if "owned" in page:
        assert any(samples.HOSTILE in text for text in tree.texts.values())


def test_every_config_has_a_section_and_a_row_that_leads_there(tree: Tree) -> None:
    sections = [own["id"] for own in tree.all("details") if str(own.get("class")).startswith("config ")]
    assert len(sections) >= 3
    assert [own["data-of"] for own in tree.all("tr") if "data-of" in own] == sections


def test_filters_and_buttons_are_hidden_until_a_script_works_them(tree: Tree) -> None:
    assert "hidden" in tree.all("form")[0]
    assert all("hidden" in own for own in tree.all("button") if own.get("type") == "button")
    fields = {name: sum(found == name for found, _ in tree.elements) for name in ("input", "select")}
    assert fields["input"] > 1
    assert fields["select"] >= 1


SAME = """
from pathlib import Path
from tests.report import report_samples as samples
from tests.report.test_html_pages import WRITERS
for name, write in WRITERS.items():
    write(Path({folder!r}) / f"{{name}}.html")
"""


@pytest.mark.slow
def test_the_same_report_makes_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        code = SAME.format(folder=str(tmp_path / seed))
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": ".", "PATH": ""}
        subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=Path(__file__).parents[2])
    for name in WRITERS:
        one, two = ((tmp_path / seed / f"{name}.html").read_bytes() for seed in ("1", "2"))
        assert one == two


# --- what they say ---------------------------------------------------------------------------------


def written(tmp_path: Path, name: str) -> Tree:
    WRITERS[name](tmp_path / "page.html")
    return Tree((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_a_gate_page_says_what_the_report_says(tmp_path: Path) -> None:
    tree = written(tmp_path, "gate")
    report = samples.gate_report()
    assert tree.text("title")[0] == "red: patchgen gate"
    assert report.summary() in tree.text("h1")[0]
    everything = " ".join(tree.text("main")).replace("\n", " ")
    for text in (
        "upstream moved: Norm.forward changed",
        "models/generated/gone.py does not exist",
        "models/toy_gpu_patch_gen_config.py:7",
        "In the generated module: models/generated/toy.py:40",
        "PG205 error",
        "PG214 warning",
        "there is nothing to check",
        "rewrote w.py",
        "removed r.py",
        "Not collected: 1",
        "models/late.py",
        "no checkpoint",
    ):
        assert text in everything, text
    assert str(samples.ROOT) not in everything
    order = [own["id"] for own in tree.all("details") if str(own.get("class")).startswith("config ")]
    assert [str(name).split(".")[1].split("_")[0] for name in order if "script" not in str(name)] == [
        "bad",
        "toy",
        "warned",
        "clean",
    ]


def test_an_upgrade_page_says_what_the_report_says(tmp_path: Path) -> None:
    tree = written(tmp_path, "upgrade")
    everything = " ".join(tree.text("main"))
    for text in (
        "transformers 5.9.0 → 5.23.0",
        "field NormConfig.rope_theta gone the new configuration lacks it",
        "merges cleanly",
        "Upstream's change is merged in by syntax",
        "x is assumed to be a tensor",
        "import torch",
        "both change the returned value",
        "(near line 23)",
        "now Norm.call",
        "3 unchanged Norm.same0, Norm.same1, Norm.same2",
        "zoo.other: not of transformers",
    ):
        assert text in everything, text
    [heads] = [text for text in tree.text("thead") if "merges cleanly" in text]
    assert heads == "configgonemovedchangedcosmeticunchangedmerges cleanlyconflict"


def test_a_matrix_page_says_what_the_report_says(tmp_path: Path) -> None:
    tree = written(tmp_path, "matrix")
    rows = [text for text in tree.text("tr") if text.startswith("zoo.")]
    assert rows == [
        "zoo.broken_gpu_patch_gen_configokcosmetic 1breaks 1breaks 1",
        "zoo.fine_gpu_patch_gen_configokokchangedcosmetic",
        "zoo.new_gpu_patch_gen_configabsentabsentokok",
    ]
    everything = " ".join(tree.text("main"))
    assert "from 5.12.0 on, works in 5.11.0 (not all between were tried)" in everything
    assert "5.16.1 to 5.23.0" in everything
    said = [text for text in tree.text("span", **{"class": "message"}) if "is not in upstream" in text]
    assert len(said) == 1  # the config does not say again what its patch says


# --- parts -----------------------------------------------------------------------------------------


def test_a_diff_has_both_sides_and_marks_the_words_that_changed() -> None:
    tree = Tree(diff_view(samples.diff(), "Norm"))
    assert tree.text("summary")[0] == "Norm +2 added \u22122 removed"
    removed, added = tree.text("del"), tree.text("ins")
    assert [line.strip() for line in removed] == ["return self.weight * x", "return self.weight * (x * scale)"]
    assert added[1].strip() == "return self.weight * (x * self.scale)"
    assert [own["data-n"] for own in tree.all("del")] == ["10", "11"]
    assert tree.text("mark") == [".float()  # in float32", "self."]
    assert [text for text in tree.text("i", **{"class": "k"}) if text == "return"]
    context = [own for own in tree.all("span") if "data-n" in own]
    assert [own["data-n"] for own in context] == ["7", "8", "9"] * 2
    assert tree.all("div", **{"class": "r", "aria-hidden": "true"})  # which a screen reader need not read twice


def test_lines_that_are_alike_stand_side_by_side() -> None:
    old = "@old(name='one')\ndef forward(self, x, device=None):\n    return x.to(device)\n"
    new = "def forward(self, x):\n    return x.float()\n"
    found = diff_view(samples.diff(old, new), "forward")
    blocks = [Tree(part) for part in found.split("<div class=g>")[1:]]
    assert [(len(block.all("del")), len(block.all("ins"))) for block in blocks] == [(1, 0), (2, 2)]
    assert [text.strip() for text in blocks[1].text("del")] == [line.strip() for line in old.splitlines()[1:]]


def test_a_line_within_a_docstring_is_no_code() -> None:
    tree = Tree(diff_view(samples.diff(), "Norm"))
    assert "        return nothing" in tree.text("i", **{"class": "s"})


def test_many_unchanged_lines_are_folded_and_long_diffs_cut() -> None:
    old = "\n".join(f"x{number} = {number}" for number in range(60))
    new = old.replace("x0 = 0", "x0 = 1").replace("x59 = 59", "x59 = 0")
    lines = [f" x{n} = {n}" for n in range(1, 59)]
    whole = "\n".join(["--- a", "+++ b", "@@ -1,60 +1,60 @@", "-x0 = 0", "+x0 = 1", *lines, "-x59 = 59", "+x59 = 0"])
    tree = Tree(diff_view(whole, "x"))
    assert new != old
    assert "52 unchanged lines" in tree.text("summary")
    fresh = "\n".join(["--- a", "+++ b", "@@ -0,0 +1,900 @@", *(f"+y{number} = 0" for number in range(900))])
    cut = Tree(diff_view(fresh, "y"))
    assert len(cut.all("ins")) == 400
    assert "500 more lines are left out here." in cut.text("p")
    assert diff_view("", "nothing") == ""


def test_a_plot_tells_where_models_part() -> None:
    tree = Tree(layers_plot(samples.layers(), "toy", "p"))
    assert tree.text("desc") == [
        "12 modules in the order in which they run; 7 differ, first model.layers.1.mlp: its relative error is "
        "3.00e-01 where 1.00e-05 is allowed."
    ]
    assert tree.all("svg", role="img")[0]["aria-labelledby"] == "p-t"
    assert len(tree.all("circle")) == 5 + 1  # and the sample
    assert len(tree.all("rect")) == 7 + 1
    right = Tree(layers_plot(samples.layers(None), "toy", "p"))
    assert right.text("desc") == ["12 modules in the order in which they run; all agree."]


def test_a_plot_has_zero_on_the_floor_and_larger_errors_higher() -> None:
    marks = [mark for mark in Tree(layers_plot(samples.layers(), "toy", "p")).all("circle") if float(mark["cx"]) > 20]
    zero, *others = sorted((float(mark["cy"]), "zero" in mark["class"]) for mark in marks)[::-1]
    assert zero == (202.0, True)
    assert others == [(y, False) for y in sorted({y for y, _ in others}, reverse=True)]


def test_a_plot_of_figures_that_are_no_numbers() -> None:
    table = samples.layers()
    rows = (("a", "A", "-", "-", "nan", "nan", "0", "differs"), ("b", "B", "-", "-", "inf", "inf", "0", "differs"))
    tree = Tree(layers_plot(type(table)(table.title, table.columns, rows), "toy", "p"))
    assert "where the same bits are required" in tree.text("desc")[0]
    assert not re.search(r'"(?:nan|inf)', layers_plot(type(table)(table.title, table.columns, rows), "toy", "p"))


def test_figures_show_shares_of_what_is_allowed() -> None:
    run = "ToyModel, padded, float32"
    figures = {f"{run}: loss": 1e-7, f"{run}: largest part of what is allowed": 1.5, "tensors": 89.0}
    figures |= {"Other, rows, float32: largest part of what is allowed": float("nan"), "rate": 0.25}
    tree = Tree(figures_view(figures))
    assert tree.text("td", **{"class": "number t-bad"}) == ["150%", "no number"]
    assert tree.text("dd") == ["89", "2.50e-01"]
    assert "1.00e-07" in tree.text("td")


def test_text_is_escaped_and_markup_is_not() -> None:
    assert tag("p", "<b>", Markup("<b></b>"), title='"<') == '<p title="&quot;&lt;">&lt;b&gt;<b></b></p>'
    assert tag("p", "a\x00b\udcff") == "<p>a\u2400b\\udcff</p>"


def test_an_empty_report_is_a_page(tmp_path: Path) -> None:
    write_report(GateReport(()), tmp_path / "page.html", tmp_path)
    tree = Tree((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert not tree.unbalanced
    assert "nothing ran" in tree.text("h1")[0]


@pytest.mark.slow
def test_a_page_of_500_configs_stays_small(tmp_path: Path) -> None:
    write_report(samples.many_gate(500), tmp_path / "page.html", samples.ROOT)
    assert (tmp_path / "page.html").stat().st_size < 6_000_000


# --- front ends ------------------------------------------------------------------------------------


def test_a_check_writes_a_page(
    gated: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(gated.root)
    page = gated.root / "out/check.html"
    assert main(["check", "--no-cache", "--html", str(page)]) == 0
    tree = Tree(page.read_text(encoding="utf-8"))
    assert tree.text("title")[0] == "green: patchgen check"
    assert "configdriftcontract" in tree.text("thead")[0]
    gated.config(PATCH.replace("x * 2", "x * 3"))
    assert main(["--check", "--no-cache", "--html", str(page)]) == 1
    tree = Tree(page.read_text(encoding="utf-8"))
    assert tree.text("title")[0] == "red: patchgen check"
    assert "config changed: Norm.forward changed" in " ".join(tree.text("main"))
    assert "return x * 3" in [text.strip() for text in tree.text("ins")]
    capsys.readouterr()
    assert main(["--all", "--html", str(page)]) == 2
    assert "--html needs check" in capsys.readouterr().err


def test_orphans_are_on_the_page_of_a_check(gated: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(gated.root)
    gated.config(PATCH, preamble=PREAMBLE.replace("patched_", "other_"))
    assert main(["--check", "--no-cache", "--html", "x.html"]) == 1
    text = " ".join(Tree((gated.root / "x.html").read_text(encoding="utf-8")).text("main"))
    assert "no config makes it now" in text


def test_reports_are_merged_into_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_report(samples.gate_report(), tmp_path / "one.json", samples.ROOT)
    write_report(samples.many_gate(3), tmp_path / "two.json", samples.ROOT)
    arguments = [str(tmp_path / "one.json"), str(tmp_path / "two.json"), "-o", str(tmp_path / "whole.html")]
    assert main(["report", *arguments]) == 2
    tree = Tree((tmp_path / "whole.html").read_text(encoding="utf-8"))
    assert len([own for own in tree.all("details") if str(own.get("class")).startswith("config ")]) == 8
