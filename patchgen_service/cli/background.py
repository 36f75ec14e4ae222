"""What a service does beside answering: runs, approvals, posts."""

from __future__ import annotations

import threading

from patchgen_service.jobs.posts import SERVICE, make_jobs
from patchgen_service.jobs.service import Jobs
from patchgen_service.web.site import Site


def make_site_jobs(site: Site, worker: str = SERVICE) -> Jobs:
    """The background work of a site, or of a worker for it."""
    return make_jobs(site.settings, site.transactions, site.store, site.secrets, worker, site.clock)


def work_until(site: Site, name: str, stopped: threading.Event) -> None:
    """Carry out runs of a service whose pages are another process, until told to stop."""
    jobs = make_site_jobs(site, name)
    jobs.start()
    stopped.wait()
    jobs.stop()
