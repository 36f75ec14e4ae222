"""The OAuth server of a forge, as small as can be: it holds its clients to state, PKCE and their secret."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from typing import Annotated, Any
from urllib.parse import urlencode

import uvicorn
from fastapi import FastAPI, Form, Header, HTTPException
from fastapi.responses import RedirectResponse

CLIENT, SECRET = "patchgen", "whisper"


class OAuthServer:
    """Serves at ``url``; ``account`` is who looks at its pages, and ``is_willing`` whether they let the client in."""

    def __init__(self) -> None:
        self.account: dict[str, Any] = {"id": 42, "login": "ada", "username": "ada", "email": "ada@example.com"}
        self.is_willing = True
        self.is_broken = False
        self._codes: dict[str, tuple[str, str]] = {}
        self._tokens: dict[str, dict[str, Any]] = {}
        config = uvicorn.Config(self._make_app(), port=0, log_level="warning", lifespan="off")
        self._server = uvicorn.Server(config)
        threading.Thread(target=self._server.run, daemon=True).start()
        while not self._server.started:
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """Stop."""
        self._server.should_exit = True

    def _make_app(self) -> FastAPI:
        app = FastAPI()
        for path in ("/login/oauth/authorize", "/oauth/authorize"):
            app.get(path)(self._authorize)
        for path in ("/login/oauth/access_token", "/oauth/token"):
            app.post(path)(self._give_token)
        for path in ("/api/v3/user", "/api/v4/user", "/api/v1/user"):
            app.get(path)(self._show_user)
        return app

    def _authorize(
        self,
        client_id: str,
        redirect_uri: str,
        response_type: str,
        state: str,
        code_challenge: str,
        code_challenge_method: str,
    ) -> RedirectResponse:
        if (client_id, response_type, code_challenge_method) != (CLIENT, "code", "S256"):
            raise HTTPException(400)
        if not self.is_willing:
            answer = {"error": "access_denied", "error_description": "The user has denied your application access"}
            return RedirectResponse(f"{redirect_uri}?{urlencode({**answer, 'state': state})}")
        code = secrets.token_urlsafe()
        self._codes[code] = (code_challenge, redirect_uri)
        return RedirectResponse(f"{redirect_uri}?{urlencode({'code': code, 'state': state})}")

    def _give_token(
        self,
        code: Annotated[str, Form()],
        redirect_uri: Annotated[str, Form()],
        code_verifier: Annotated[str, Form()],
        client_id: Annotated[str, Form()],
        client_secret: Annotated[str, Form()],
        grant_type: Annotated[str, Form()],
    ) -> dict[str, str]:
        if self.is_broken:
            raise HTTPException(500)
        digest = hashlib.sha256(code_verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        is_right = (client_id, client_secret, grant_type) == (CLIENT, SECRET, "authorization_code")
        if not is_right or self._codes.pop(code, None) != (challenge, redirect_uri):
            return {"error": "bad_verification_code", "error_description": "The code is incorrect or expired"}
        token = secrets.token_urlsafe()
        self._tokens[token] = self.account
        return {"access_token": token, "token_type": "bearer", "scope": "read:user"}

    def _show_user(self, authorization: Annotated[str, Header()]) -> dict[str, Any]:
        try:
            return self._tokens[authorization.removeprefix("Bearer ")]
        except KeyError:
            raise HTTPException(401) from None
