"""Environment variables that do not matter to what a process computes."""

from __future__ import annotations

import re

HARMLESS = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TERM|TERM_PROGRAM(_VERSION)?|COLORTERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?"
    r"|PY_COLORS|LS_COLORS|PS1|PS2|EDITOR|VISUAL|PAGER|LESS\w*|MAIL|WINDOWID|DISPLAY|WAYLAND_DISPLAY|SSH_\w+|TMUX\w*"
    r"|STY|XDG_SESSION_\w+|DBUS_\w+|VSCODE_\w+|GIT_\w+|GITHUB_(RUN_\w+|SHA|REF\w*|ENV|OUTPUT|PATH|STATE|STEP_SUMMARY)"
    r"|PYTEST_(CURRENT_TEST|VERSION|XDIST_\w+)"
    r"|PATCHGEN_(FORK_SERVER|WATCHED|CACHE_DIR|JOBS|KEEP_CHECKS|BENCHMARK_PHASES|SHARED_CACHE\w*)"
)
"""The environment variables that no model, kernel or import reads; every other one may matter. One of these does as
well where a project's own text names it."""
