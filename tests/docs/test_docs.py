"""README.md and docs/: every snippet is run, and every output shown is what comes out.

A fenced block says after its language what it is:

- ``file=PATH`` is written to that file, ``append=PATH`` goes to its end;
- ``in=PATH`` stands in that file;
- ``console`` lines after ``$`` are run, and the lines below are what they print (``exit=N``: the exit code
  of the last); with ``session=COLUMNS`` in a terminal, where somebody types what follows ``> ``, and ``[...]`` stands
  for anything;
- ``rule=CODE.failing.text`` and the like is that part of a rule's example, which tests/contracts and
  tests/runtime run;
- ``rules=settings`` is a ``pyproject.toml``, and ``rules=allow`` a line of a config in that project;
- ``python`` alone is executed; ``bash`` shows commands that set a machine up and is compared with the Makefile's
  targets and the package's name.

``do=NAME`` runs the step of that name, below, first; ``example=NAME`` shows what a check prints after that step.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from markdown_it import MarkdownIt

from patchgen_core.api.codegen import generate_and_write
from patchgen_core.build.selection import Selection
from patchgen_core.checks.contract.pages import rules_page
from patchgen_core.checks.contract.run import EVERY_RULE
from patchgen_core.project.table import load_project
from patchgen_core.syntax.diffs import reverse_diff
from patchgen_core.upstream.module import find_upstream
from tests.terminal import Terminal

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SLOW = (
    "adding-a-model.md",
    "command-line.md",
    "deciding.md",
    "from-a-fork.md",
    "moving-over.md",
    "parallel.md",
    "plugin.md",
    "reports.md",
    "runtime.md",
    "service.md",
    "thirty-forks.md",
    "upgrading.md",
)
BY_NAME = [pytest.param(page, id=page.name, marks=[pytest.mark.slow] * (page.name in SLOW)) for page in PAGES]


def step_red(folder: Path) -> None:
    """Someone edits the generated file of the README."""
    path = folder / "acme/models/qwen3/generated/patched_modeling_qwen3_gpu.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("down_proj = self.down_proj(Liger", "down_proj = 2 * self.down_proj(Liger"))


QWEN3 = "transformers.models.qwen3.modeling_qwen3"
QWEN3_CONFIG = "acme/models/qwen3/qwen3_gpu_patch_gen_config.py"
QWEN3_EDITS = "acme/models/qwen3/qwen3_edits_patch_gen_config.py"


def old_release(site: Path, models: Iterable[str] = ("qwen3",)) -> Path:
    """A folder with some models as transformers 5.16.1 has them."""
    for model in models:
        diff = (ROOT / f"tests/docs/{model}-5.16.1.diff").read_text(encoding="utf-8")
        name = f"transformers.models.{model}.modeling_{model}"
        text = reverse_diff(find_upstream(name).path.read_text(encoding="utf-8"), diff)
        assert text is not None, f"tests/docs/{model}-5.16.1.diff does not lead to the installed transformers"
        module = site.joinpath(*name.split(".")).with_suffix(".py")
        module.parent.mkdir(parents=True)
        for package in list(module.relative_to(site).parents)[:-1]:
            (site / package / "__init__.py").touch()
        module.write_text(text, encoding="utf-8")
    metadata = site / "transformers-5.16.1.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: transformers\nVersion: 5.16.1\n", encoding="utf-8")
    return site


def step_made_before(folder: Path) -> None:
    """The project's files are generated against transformers 5.16.1."""
    with TemporaryDirectory() as temporary:
        project = replace(load_project(folder), upstream=(old_release(Path(temporary)),))
        generate_and_write(Selection(project, project.find_configs()), save_diff=True)


def step_three_before(folder: Path) -> None:
    """The files of three models are generated against transformers 5.16.1."""
    with TemporaryDirectory() as temporary:
        project = replace(load_project(folder), upstream=(old_release(Path(temporary), ("llama", "qwen2", "qwen3")),))
        generate_and_write(Selection(project, project.find_configs()), save_diff=True)


def step_edits_before(folder: Path) -> None:
    """The files of the config that edits Qwen3 are generated against transformers 5.16.1."""
    with TemporaryDirectory() as temporary:
        project = replace(load_project(folder), upstream=(old_release(Path(temporary)),))
        generate_and_write(Selection(project, [folder / QWEN3_EDITS]), save_diff=True)


def step_checkout(folder: Path) -> None:
    """Sources of transformers 5.16.1 lie in the project's folder."""
    old_release(folder / "transformers-5.16.1")


def step_two_deleted(folder: Path) -> None:
    """Somebody deletes the two patches of the rotary embedding from the config."""
    path = folder / QWEN3_CONFIG
    text = path.read_text(encoding="utf-8")
    first, last = text.index("@config.override_method(\n"), text.index('@config.override_method("Qwen3ForCausalLM')
    path.write_text(text[:first] + text[last:], encoding="utf-8")


def step_other_generator(folder: Path) -> None:
    """The project's files are what the reference's generator makes, and somebody edited one."""
    project = load_project(folder)
    generate_and_write(Selection(project, project.find_configs()))
    rule = f"# {'=' * 78}\n"
    for path in project.search_root.glob("*/generated/*.py"):
        _, mark, header, text = path.read_text(encoding="utf-8").split(rule, 3)
        told = "".join(line for line in header.splitlines(True) if line.startswith(("#  Source:", "#  Based on:")))
        text = text.replace("self.gate_proj(x), self.up_proj(x)", "self.gate_proj(x), 2 * self.up_proj(x)")
        path.write_text(f"{rule}{mark}{rule}#\n{told}#\n{rule}\n{text}".replace("# [MODIFIED", "# [PATCHED"))


def step_fork(folder: Path) -> None:
    """A copy of Qwen3 with other names, a guard, a base and fewer heads lies beside the text that it is a copy of."""
    text = find_upstream(QWEN3).path.read_text(encoding="utf-8")
    forks = folder / "acme/forks"
    forks.mkdir(parents=True)
    (forks / "upstream.py").write_text(text, encoding="utf-8")
    guard = "        # a rank may have got no token\n        if x.numel() == 0:\n            return x\n"
    text = text.replace("        down_proj = self.down_proj(", f"{guard}        down_proj = self.down_proj(")
    text = text.replace("Qwen3Model(Qwen3PreTrainedModel)", "Qwen3Model(Sharded, Qwen3PreTrainedModel)")
    text = re.sub(r"\nclass Qwen3For(Seq|Tok|Quest).*?(?=\n\n\n)", "", text, flags=re.DOTALL)
    text = re.sub(r'    "Qwen3For(Seq|Tok|Quest).*\n', "", text)
    text = text.replace("import torch\n", "import torch\nfrom acme.sharding import Sharded\n", 1)
    text = re.sub(r"Qwen3(?!Config)", "Acme", text)
    (forks / "modeling_acme.py").write_text(text, encoding="utf-8")


STEPS = {
    "fork": step_fork,
    "red": step_red,
    "made-before": step_made_before,
    "edits-before": step_edits_before,
    "three-before": step_three_before,
    "two-deleted": step_two_deleted,
    "checkout": step_checkout,
    "other-generator": step_other_generator,
}


def fences(page: Path) -> Iterator[tuple[str, dict[str, str], str, int]]:
    """Language, options, text and line of each fenced block."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "fence":
            language, *options = token.info.split()
            assert token.map is not None
            yield language, dict(o.split("=", 1) for o in options), token.content, token.map[0] + 1


def run(command: str, folder: Path) -> tuple[int, str]:
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80"}
    env |= {"PYTEST_ADDOPTS": "-p no:randomly -p no:anyio", "CI": "", "GITHUB_ACTIONS": ""}
    folders, own = os.environ["PATH"].split(os.pathsep), str(Path(sys.executable).parent)
    if folders[0] != own:
        env["PATH"] = os.pathsep.join([own, *folders])
    if re.search(r"\bgit\b", command):
        env |= {f"GIT_{who}_{what}": "someone" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def check_console(text: str, options: dict[str, str], folder: Path) -> None:
    if "do" in options:
        STEPS[options["do"]](folder)
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    codes = [0] * (len(parts) - 1) + [int(options.get("exit", 0))]
    for part, wanted in zip(parts, codes, strict=True):
        command, _, expected = part.partition("\n")
        code, output = run(command, folder)
        assert (output, code) == (expected, wanted), command


def check_session(text: str, columns: int, folder: Path) -> None:
    """Somebody types what stands behind each prompt; what the terminal shows in the end is what the page shows."""
    command, _, expected = text.removeprefix("$ ").partition("\n")
    program, *arguments = shlex.split(command)
    assert program == "patchgen"
    terminal = Terminal(arguments, folder, columns)
    for line in re.findall(r"^> (.+)$", expected, re.MULTILINE):
        terminal.until("\n> ")
        terminal.type(line)
    terminal.end()
    shown = "".join(f"{line.rstrip()}\n" for line in terminal.text.splitlines())
    pattern = ".*".join(re.escape(part) for part in expected.split("[...]\n"))
    assert re.fullmatch(pattern, shown, re.DOTALL), shown


ALLOWING = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.qwen3.modeling_qwen3", "patched_modeling_qwen3_gpu.py")

@config.override_method("Qwen3Attention.forward")
def forward(self, hidden_states, position_embeddings, attention_mask):
    return hidden_states, None
"""


def check_example(mark: str, text: str) -> None:
    code, which, part, *path = mark.split(".", 3)
    value = getattr(getattr(next(rule for rule in EVERY_RULE if rule.code == code), which), part)
    wanted = value[path[0]] if path else value
    assert text == re.sub("\n{3,}", "\n\n", f"{wanted.strip(chr(10))}\n")


def check_rules(kind: str, text: str, folder: Path) -> None:
    """Settings run, and what is allowed was a finding before it was."""
    if kind == "settings":
        (folder / "pyproject.toml").write_text(text, encoding="utf-8")
        for name in ("kernels", "models/qwen3/qwen3_gpu_patch_gen_config"):
            (folder / f"acme/{name}.py").parent.mkdir(parents=True, exist_ok=True)
            (folder / f"acme/{name}.py").write_text("" if name == "kernels" else ALLOWING, encoding="utf-8")
        assert run("patchgen --all --diff", folder)[0] == 0
        return
    code, output = run("patchgen check --select PG200,PG201", folder)
    assert (code, output.count("error: PG201")) == (1, 2), output
    with (folder / "acme/models/qwen3/qwen3_gpu_patch_gen_config.py").open("a", encoding="utf-8") as config:
        config.write(text)
    code, output = run("patchgen check --fix --select PG200,PG201", folder)
    assert (code, output.splitlines()[-1]) == (0, "contracts: 2 allowances."), output


def check_bash(text: str) -> None:
    makefile, pyproject = ((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "pyproject.toml"))
    for line in text.splitlines():
        command = line.split("#")[0].split()
        if command[0] == "make":
            assert f"\n{command[1]}:" in makefile, line
        else:
            found = re.fullmatch(r'pip install "pytest-patchgen\[([\w,]+)\]"', line)
            assert found, line
            for extra in found[1].split(","):
                assert re.search(rf"^{extra} = \[", pyproject, re.MULTILINE), line


def check_fence(language: str, options: dict[str, str], text: str, folder: Path) -> None:
    if path := options.get("file") or options.get("append"):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w" if "file" in options else "a", encoding="utf-8") as file:
            file.write(text if "file" in options else f"\n\n{text}")
    elif "in" in options:
        assert text in (folder / options["in"]).read_text(encoding="utf-8")
    elif "session" in options:
        check_session(text, int(options["session"]), folder)
    elif language == "console" and "example" not in options:
        check_console(text, options, folder)
    elif "rule" in options:
        check_example(options["rule"], text)
    elif "rules" in options:
        check_rules(options["rules"], text, folder)
    elif language == "bash":
        check_bash(text)
    else:
        assert language == "python", f"nothing runs a {language} block"
        exec(compile(text, "<snippet>", "exec"), {})


@pytest.mark.parametrize("page", BY_NAME)
def test_every_snippet_of_a_page_works(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = []
    for language, options, text, line in fences(page):
        if "example" in options:
            examples.append((options["example"], text))
            continue
        try:
            check_fence(language, options, text, tmp_path)
        except (AssertionError, OSError) as error:
            pytest.fail(f"{page.name}:{line}: {error}")
    for name, text in examples:
        STEPS[name](tmp_path)
        assert run("patchgen --check", tmp_path) == (1, text)


def test_page_of_the_rules_is_what_they_say() -> None:
    page = (ROOT / "docs/rules.md").read_text(encoding="utf-8")
    assert page == rules_page(), "run 'python -m patchgen_core.checks.contract.pages > docs/rules.md'"


@pytest.mark.slow
def test_picture_of_the_red_run_shows_what_is_printed(tmp_path: Path) -> None:
    from tools.screenshot import PICTURE, draw

    assert draw(tmp_path) == PICTURE.read_text(encoding="utf-8"), "run 'python -m tools.screenshot'"


@pytest.mark.slow
def test_picture_of_the_red_parity_shows_what_is_printed(tmp_path: Path) -> None:
    from tools.screenshot import PARITY_PICTURE, draw_parity

    def words(picture: str) -> set[str]:  # the figures, and so the order, are the machine's
        return set(re.findall(r"[A-Za-z_]{3,}", "".join(re.findall(r"<text.*?</text>", picture))))

    drawn = words(draw_parity(tmp_path))
    assert {"gate_proj", "differs", "override_method"} <= drawn
    assert len(drawn ^ words(PARITY_PICTURE.read_text(encoding="utf-8"))) <= 4, "run 'python -m tools.screenshot'"
