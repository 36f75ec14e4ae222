"""How a run names the cluster that it runs on."""

from __future__ import annotations

from patchgen_core.errors import PatchgenError

RAY, SCHEME = "ray", "ray://"


def check_cluster(flag: str, text: str | None) -> str:
    """The cluster that an option names, empty for none: ``ray``, or ``ray://host:port``."""
    if text is None or text == RAY or (text.startswith(SCHEME) and text != SCHEME):
        return text or ""
    hint = f"'{SCHEME}host:10001', or '{RAY}' for the one that this machine is a node of or RAY_ADDRESS names."
    raise PatchgenError(f"{flag} takes the address of a Ray cluster, not '{text}'", None, hint)
