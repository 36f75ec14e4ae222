"""The pictures of docs/editors.md: VS Code's engine over a copy of the zoo.

python -m tools.editor_pictures [SCENE...]      # writes docs/vscode-SCENE.png, all of them by default
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from tests.editors import scenes
from tests.editors.vscode import Code
from tests.lsp.editor import copy_zoo

DOCS = Path(__file__).parents[1] / "docs"
SCENES = {
    "hover": scenes.show_hover,
    "finding": scenes.show_finding,
    "completion": scenes.show_completion,
    "diff": scenes.show_diff,
}


def photograph(names: Iterable[str], zoo: Path, data: Path) -> None:
    """Write a picture of each scene, in few colours: they are small then."""
    code = Code(zoo, data)
    try:
        for name in names:
            SCENES[name](code, zoo)
            picture = Image.open(io.BytesIO(code.browser.get_screenshot_as_png())).convert("RGB")
            picture.quantize(128).save(DOCS / f"vscode-{name}.png", optimize=True)
    finally:
        code.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as data:
        folder = Path(place, "project")
        folder.mkdir()
        photograph(sys.argv[1:] or SCENES, copy_zoo(folder), Path(data))
