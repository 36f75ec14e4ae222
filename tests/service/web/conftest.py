"""A site over a team's repository, and who visits it."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_team import Team
from web_visitors import Visitor, make_site

from patchgen_service.web.site import Site


@pytest.fixture
def site(sqlite_team: Team, tmp_path: Path) -> Site:
    """A site over the team's repository, which nobody sees who has no role in it."""
    return make_site(sqlite_team.transactions, sqlite_team.store, tmp_path)


@pytest.fixture
def visitor(site: Site) -> Visitor:
    """Somebody who has not signed in."""
    return Visitor(site)
