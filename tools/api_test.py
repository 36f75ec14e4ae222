"""Schemathesis against a service with a short made history: nothing that it thinks of may be answered with a 500.

python -m tools.api_test [examples for each operation]      # on SQLite, then on PostgreSQL
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from patchgen_service.accounts.people import add_person
from patchgen_service.accounts.tokens import SCOPES, add_token
from patchgen_service.cli.serving import open_site
from patchgen_service.settings import ServiceSettings
from tools.postgresql import PostgresServer
from tools.service_process import ServiceProcess

ROOT = Path(__file__).parents[1]
TESTER = Path(sys.prefix) / "api-tester"
sys.path.insert(0, str(ROOT / "examples" / "service"))

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def check(folder: Path, database: str, examples: int) -> int:
    """Run it against one kind of database; returns the tester's exit code."""
    from made_history import History

    site = open_site(ServiceSettings(folder, database=database))
    with site.transactions() as session:
        now = datetime.now(timezone.utc)
        History(session, site.store, ROOT / "examples" / "zoo", now, days=4).make()
        person = add_person(session, "tester", "tools", now, is_admin=True)
        token = add_token(session, person, "tester", tuple(SCOPES), now)
    with ServiceProcess(folder, {"PATCHGEN_DATABASE": database}) as service:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/api/v1/openapi.json"]
        command += ["--checks", CHECKS, "--max-examples", str(examples), "--seed", "7", "--no-color"]
        command += ["--header", f"Authorization: Bearer {token}", "--continue-on-failure", "--warnings", "off"]
        environment = {**os.environ, "PYTHONPATH": str(TESTER)}
        return subprocess.run(command, cwd=folder, env=environment).returncode


def main() -> int:
    """Check on both kinds of database; returns 1 where one failed."""
    examples = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        codes = [check(Path(folder) / "sqlite", "", examples)]
        with PostgresServer() as server:
            codes.append(check(Path(folder) / "postgresql", server.make_database("tested"), examples))
    print(f"exit codes: {codes}")
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
