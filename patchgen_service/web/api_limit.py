"""How often the API may be called, which is judged before anything of a call is read."""

from __future__ import annotations

import math
import time

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from patchgen_service.secrets import token_digest
from patchgen_service.settings import CallLimits
from patchgen_service.web.rates import Allowance


class LimitedCalls:
    """Turns calls away that come too often by one token, whether there is such a token or not, or of one address.

    A call that is turned away counts for nothing, and costs no query.
    """

    def __init__(self, app: ASGIApp, limits: CallLimits) -> None:
        self._app = app
        self._by_token, self._by_address = Allowance(limits.per_token), Allowance(limits.per_address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        wait, sentence = self._take(scope)
        if wait:
            answer = JSONResponse({"detail": sentence}, 429, {"Retry-After": str(math.ceil(wait))})
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _take(self, scope: Scope) -> tuple[float, str]:
        """Seconds until a call may be made, and why not now; a call that may be made is counted."""
        at, token = time.monotonic(), Headers(scope=scope).get("authorization", "")
        uses = [(self._by_address, scope["client"][0] if scope["client"] else "", "of this address")]
        if token:
            uses.append((self._by_token, token_digest(token), "with this token"))
        for allowance, key, whose in uses:
            if wait := allowance.wait(key, at):
                return wait, f"There were more than {allowance.per_minute} calls a minute {whose}."
        for allowance, key, _ in uses:
            allowance.take(key, at)
        return 0.0, ""
