"""What the service is told, in sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DATABASE_NAME = "service.sqlite"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PACKAGE_INDEX = "https://pypi.org"


@dataclass(frozen=True)
class RunLimits:
    """What one run may use. ``memory_mib``, ``disk_mib`` and ``processes`` are of all of its processes together."""

    seconds: int = 3600
    memory_mib: int = 16384
    processes: int = 512
    disk_mib: int = 8192
    install_seconds: int = 1800


@dataclass(frozen=True)
class CallLimits:
    """Calls of the API that are answered in a minute: with one token, and of one address. 0 is any number."""

    per_token: int = 600
    per_address: int = 6000


@dataclass(frozen=True)
class Retention:
    """For how many days things stay. 0 is for ever.

    Attributes:
        runs: runs and the figures of their results.
        results: what checks said in full: messages, tables, diffs.
        files: regenerated files, and what else a run makes for people.
        posts: what was posted elsewhere, and what webhooks told.
        environments: since an environment was last used.
        newest: so many of the newest runs of a branch stay whatever their age.
    """

    runs: int = 730
    results: int = 180
    files: int = 90
    logs: int = 30
    posts: int = 90
    audit: int = 730
    environments: int = 14
    newest: int = 20


@dataclass(frozen=True)
class MailSettings:
    """How mail is sent. An empty ``server`` sends none; ``security`` is ``starttls``, ``tls`` or ``none``."""

    server: str = ""
    port: int = 587
    security: str = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""


@dataclass(frozen=True)
class GithubAppSettings:
    """The service as an app on GitHub; an empty ``id`` is none.

    Attributes:
        id: the app's id, or its client id.
        private_key: path of the PEM file with its private key, from the service's folder.
        webhook_secret: what its webhooks are signed with; best kept in the environment.
        url: the root of its GitHub.
    """

    id: str = ""
    private_key: str = ""
    webhook_secret: str = field(default="", repr=False)
    url: str = "https://github.com"


@dataclass(frozen=True)
class RepositorySettings:
    """A repository that the file declares; its keys are the columns of :class:`~..database.tables.Repository`.

    ``webhook_secret`` and ``forge_token`` name variables of the environment, and are no secrets themselves.
    """

    name: str = ""
    url: str = ""
    forge: str = "none"
    forge_url: str = ""
    default_branch: str = "main"
    branches: tuple[str, ...] = ()
    projects: tuple[str, ...] = (".",)
    python: str = ""
    constraints: str = ""
    extras: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    is_trusted: bool = False
    is_public: bool = False
    webhook_secret: str = ""
    forge_token: str = ""
    poll_seconds: int = 0
    schedule: str = ""


@dataclass(frozen=True)
class SignInSettings:
    """A forge that people sign in with, which has this service as an OAuth application.

    Attributes:
        forge: ``github``, ``gitlab`` or ``forgejo``, which is Gitea's as well.
        url: the root of the forge; empty for GitHub's and GitLab's own.
        client_secret: the file names a variable of the environment, and has no secret itself.
        unknown: what happens to somebody whom the forge knows and the service does not: ``refuse``, or ``viewer`` of
            all repositories that there are.
    """

    forge: str = ""
    url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    unknown: str = "refuse"


@dataclass(frozen=True)
class ServiceSettings:
    """All settings.

    Attributes:
        folder: where the service has its database and files; absolute.
        database: URL of the database; empty for SQLite in the folder.
        public_url: how browsers and forges reach the service; empty for its host and port.
        host_names: other names that it answers to, such as the one that its workers know; the environment separates
            them with commas.
        workers: how many runs are carried out at once by this process; 0 leaves them to other machines.
        isolation: ``auto`` takes what works of ``bubblewrap`` and ``podman``, in this order.
        index_url: the package index that is asked for releases, and that environments are installed from.
        cluster: address of the Ray cluster that does what takes long in runs of trusted repositories; empty for none.
        history: a clone of transformers on this machine, whose history tells which of its changes is behind what is
            left of an upgrade; empty for none.
        release_requests: cron expression of when repositories get the pull request for a release; empty for never.
        file: where this was read; none where there was no file.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8765
    database: str = ""
    public_url: str = ""
    host_names: tuple[str, ...] = ()
    workers: int = 1
    isolation: str = "auto"
    index_url: str = _PACKAGE_INDEX
    cluster: str = ""
    history: str = ""
    release_requests: str = "0 6 * * 1"
    limits: RunLimits = RunLimits()
    calls: CallLimits = CallLimits()
    retention: Retention = Retention()
    mail: MailSettings = MailSettings()
    github_app: GithubAppSettings = GithubAppSettings()
    repositories: tuple[RepositorySettings, ...] = ()
    sign_ins: tuple[SignInSettings, ...] = ()
    file: Path | None = None

    @property
    def database_url(self) -> str:
        """The URL of the database, with its default."""
        return self.database or f"sqlite:///{self.folder / DATABASE_NAME}"

    @property
    def base_url(self) -> str:
        """The root of the service's addresses, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url.rstrip("/") or f"http://{host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in LOOPBACK

    @property
    def pip_index(self) -> str:
        """The index that pip is told of; empty where it is to ask the one that its own settings name."""
        url = self.index_url.rstrip("/")
        return "" if url == _PACKAGE_INDEX else f"{url}/simple"

    @property
    def files_folder(self) -> Path:
        """Where stored files are."""
        return self.folder / "files"

    @property
    def mirrors_folder(self) -> Path:
        """Where mirrors of git repositories are."""
        return self.folder / "mirrors"

    @property
    def environments_folder(self) -> Path:
        """Where environments of runs are."""
        return self.folder / "environments"

    @property
    def work_folder(self) -> Path:
        """Where runs have their worktrees; what is in it is of no worth when nothing runs."""
        return self.folder / "work"
