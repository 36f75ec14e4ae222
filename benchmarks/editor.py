"""What an editor waits for at the language server, and its memory, beside the goals: exit code 1 when one is missed.

A client opens every config of a copy of the zoo, and then asks each feature about two of them: Llama's, which is of
the usual size, and Qwen3-Omni-MoE's, the largest. *open* is from opening a config to its findings; *findings* is from
a keystroke in a patch's description to the findings of the text, less the pause that the server waits for another
keystroke, and *in code* the same for a keystroke in a replacement. Each keystroke makes a text that the server has not
seen. *Of torch* is the median as a multiple of what ``import torch`` takes of a processor in the same run, by which
the goal is judged: 150 ms where that takes 1.76 s. *Processor* is what the server's processes take for an answer.
Opening a config has no goal. Memory is that of the server with its processes, in which what they share counts once
(PSS), after all of it.

    python benchmarks/editor.py [--times 20]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types

sys.path.insert(0, str(Path(__file__).parents[1]))

from processes import descendants_cpu, descendants_memory
from processes import measure as run_process

from patchgen_lsp.commands import SHOW_DIFF
from patchgen_lsp.documents import PAUSE
from tests.lsp.editor import LLAMA, Editor, copy_zoo

USUAL_TORCH, GOAL, MIB_GOAL = 1760, 150, 250
"""Milliseconds of ``import torch`` on a usual machine, and there of an answer; and MiB of all processes."""
OMNI = "examples/zoo/qwen3_omni_moe/qwen3_omni_moe_gpu_patch_gen_config.py"
PLACES = {
    LLAMA: ('"LlamaMLP.forward"', "def llama_mlp_forward"),
    OMNI: ('"Qwen3OmniMoeAudioEncoder.dummy_forward"', "def qwen3_omni_moe_audio_dummy_forward"),
}
"""A target of each config, and a replacement."""


def main() -> int:
    """Measure, print, and compare with the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="how often each question is asked (default: 20)")
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as folder:
        editor = Editor(copy_zoo(Path(folder)))
        opened = open_zoo(editor, Path(folder, "examples/zoo"))
        torch = min(run_process([sys.executable, "-c", "import torch"], Path(folder)).cpu for _ in range(3))
        print(f"import torch: {torch * 1000:.0f} ms of the processor; goal: {GOAL / USUAL_TORCH:.3f} of that")
        print(f"{'':<12}{'median':>10}{'worst':>10}{'of torch':>10}{'processor':>12}{'of torch':>10}")
        opened.report("open", torch, has_goal=False)
        missed = False
        for path in PLACES:
            print(Path(path).name)
            missed |= measure(typing(editor, path), times, PAUSE).report("findings", torch)
            missed |= measure(typing_code(editor, path), times, PAUSE).report("in code", torch)
            settle(editor, path)
            for name, ask in questions(editor, path).items():
                missed |= measure(ask, times).report(name, torch)
        memory = descendants_memory(os.getpid())
        editor.stop()
    if memory is not None:
        print(f"memory of the server, {len(opened.each)} configs open: {memory:.0f} MiB (goal: {MIB_GOAL} MiB)")
        missed |= memory > MIB_GOAL
    return int(missed)


@dataclass(frozen=True)
class Times:
    """The milliseconds of each answer, and the processor milliseconds of one."""

    each: list[float]
    processor: float

    def report(self, name: str, torch: float, has_goal: bool = True) -> bool:
        """Print them, beside the seconds of ``import torch``; whether their median misses the goal."""
        median = statistics.median(self.each)
        waited, processor = (value / torch / 1000 for value in (median, self.processor))
        is_missed = has_goal and waited > GOAL / USUAL_TORCH
        print(f"{name:<12}{median:>7.0f} ms{max(self.each):>7.0f} ms{waited:>10.3f}", end="")
        print(f"{self.processor:>9.0f} ms{processor:>10.3f}", end="")
        print("   missed" if is_missed else "")
        return is_missed


def open_zoo(editor: Editor, zoo: Path) -> Times:
    """Open every config, until the findings of each are there."""
    paths = sorted(zoo.glob("*/*_patch_gen_config.py"))
    return _measure(lambda number: editor.open(paths[number]), len(paths))


def measure(ask: Callable[[int], object], times: int, pause: float = 0.0) -> Times:
    """What a question takes, less a pause; the first time, with what is read once, does not count."""
    ask(-1)
    return _measure(ask, times, pause)


def _measure(ask: Callable[[int], object], times: int, pause: float = 0.0) -> Times:
    before, taken = descendants_cpu(os.getpid()), []
    for number in range(times):
        start = time.perf_counter()
        ask(number)
        taken.append((time.perf_counter() - start - pause) * 1000)
    return Times(taken, (descendants_cpu(os.getpid()) - before) * 1000 / times)


def typing(editor: Editor, path: str) -> Callable[[int], object]:
    """What types a text of a config that makes another module: with a number in a patch's description."""
    text = editor.read(path)
    return lambda number: editor.change(path, text.replace('description="', f'description="{number} ', 1))


def typing_code(editor: Editor, path: str) -> Callable[[int], object]:
    """What types a text of a config that makes other code: with another number in a replacement."""
    text = editor.read(path)
    start = text.index(":\n", text.index(PLACES[path][1])) + 2
    return lambda number: editor.change(path, f"{text[:start]}    number = {number + 1}\n{text[start:]}")


def settle(editor: Editor, changed: str) -> None:
    """Wait until the other open configs have been looked at again, after a change of one."""
    others = [(uri, version) for uri, version in editor.versions.items() if uri != editor.uri(changed)]
    for key in others:
        editor.shown.pop(key, None)
    editor.change(changed, f"{editor.texts[editor.uri(changed)]}\n")
    for uri, _ in others:
        editor.wait(uri)


def questions(editor: Editor, path: str) -> dict[str, Callable[[int], object]]:
    """Each feature's question about a config."""
    target, replacement = PLACES[path]
    document = types.TextDocumentIdentifier(editor.uri(path))
    place, behind = editor.place(path, target, 5), editor.place(path, replacement, 6)
    there = types.Range(place["position"], place["position"])
    whole = types.Range(types.Position(0, 0), types.Position(1000, 0))
    context = types.ReferenceContext(include_declaration=True)
    asked: dict[str, tuple[str, Any]] = {
        "completion": (types.TEXT_DOCUMENT_COMPLETION, types.CompletionParams(**place)),
        "hover": (types.TEXT_DOCUMENT_HOVER, types.HoverParams(**place)),
        "definition": (types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**place)),
        "replacement": (types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(**behind)),
        "references": (types.TEXT_DOCUMENT_REFERENCES, types.ReferenceParams(context=context, **place)),
        "actions": (
            types.TEXT_DOCUMENT_CODE_ACTION,
            types.CodeActionParams(document, there, types.CodeActionContext([])),
        ),
        "lenses": (types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensParams(document)),
        "hints": (types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintParams(document, whole)),
    }
    rename = types.RenameParams(new_name="another_name", **behind)
    asked["rename"] = (types.TEXT_DOCUMENT_RENAME, rename)
    lenses = editor.ask(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensParams(document))
    command = next(lens.command for lens in lenses if lens.command.command == SHOW_DIFF)
    diff = types.ExecuteCommandParams(command.command, command.arguments)
    asked["diff"] = (types.WORKSPACE_EXECUTE_COMMAND, diff)
    return {name: _asking(editor, *question) for name, question in asked.items()}


def _asking(editor: Editor, method: str, params: Any) -> Callable[[int], object]:
    return lambda number: editor.ask(method, params)


if __name__ == "__main__":
    sys.exit(main())
