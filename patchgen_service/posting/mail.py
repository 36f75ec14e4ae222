"""Mail by SMTP: what is newly red, to those whose folder it is in."""

from __future__ import annotations

import html
import smtplib
import ssl
from collections.abc import Collection, Mapping
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime

from packaging.version import Version

from patchgen_core.files import short_hash
from patchgen_service.forges.api import ForgeError
from patchgen_service.posting.words import describe, one_line, run_address
from patchgen_service.settings import MailSettings
from patchgen_service.views.lines import RunLine
from patchgen_service.views.run import RunDetail

_SECONDS = 30


def mail_content(detail: RunDetail, address: str, paths: Collection[str], base_url: str) -> dict[str, object]:
    """A mail about the new results of some configs."""
    line = detail.line
    new = [result for result in detail.changed("new") if result.path in paths]
    rows = [(result.item, result.config, result.path, one_line(result.headline)) for result in new]
    link = run_address(base_url, line.id)
    first = one_line(_first_line(line, describe(detail)), 500)
    text = [first, "", "New since the baseline:", ""]
    text += [f"- {item} of {config} ({path}): {headline}" for item, config, path, headline in rows]
    cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    table = "".join(f"<tr>{row}</tr>" for row in cells)
    page = (
        f"<p>{html.escape(first)}</p><p>New since the baseline:</p><table>{table}</table>"
        f'<p><a href="{html.escape(link)}">Run {line.number}</a></p>'
    )
    about = f"transformers {line.transformers}" if line.transformers else line.branch
    subject = one_line(f"[{line.repository}] {about}: {len(new)} newly red ({rows[0][1]})", 180)
    return {"to": address, "subject": subject, "text": "\n".join([*text, "", link, ""]), "html": page}


def _first_line(line: RunLine, verdict: str) -> str:
    place = f"{line.branch} of {line.repository}, commit {line.sha[:10]}"
    if not line.transformers:
        return f"{verdict} on {place} by {line.author}"
    hint = ". What a candidate breaks can be reported to transformers before the release"
    is_candidate = Version(line.transformers).is_prerelease
    return f"{verdict} with transformers {line.transformers} on {place}{hint if is_candidate else ''}"


def send_mail(content: Mapping[str, str], settings: MailSettings, key: str, sent: datetime) -> str:
    """Send a mail and return its id, which is the same each time: what is sent twice can be told to be one.

    A ForgeError when it was not taken.
    """
    if not settings.server:
        raise ForgeError("refused", "the service has no mail server")
    message = EmailMessage()
    domain = settings.sender.rpartition("@")[2] or "patchgen.invalid"
    message["Message-ID"] = f"<{short_hash(key)}.patchgen@{domain}>"
    message["From"], message["To"] = settings.sender, content["to"]
    message["Subject"], message["Date"] = content["subject"], format_datetime(sent)
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(content["text"])
    message.add_alternative(content["html"], subtype="html")
    try:
        _hand_over(message, settings)
    except smtplib.SMTPRecipientsRefused as error:
        code = max(code for code, _ in error.recipients.values())
        raise ForgeError("refused" if code >= 500 else "unavailable", f"the recipient was refused: {code}") from None
    except smtplib.SMTPResponseException as error:
        kind = "refused" if error.smtp_code >= 500 else "unavailable"
        raise ForgeError(kind, f"{settings.server} answered {error.smtp_code}") from None  # type: ignore[arg-type]
    except (OSError, smtplib.SMTPException) as error:
        raise ForgeError("unavailable", f"{settings.server} did not take the mail: {error}") from None
    return str(message["Message-ID"])


def _hand_over(message: EmailMessage, settings: MailSettings) -> None:
    context = ssl.create_default_context() if settings.security != "none" else None
    if settings.security == "tls":
        connection: smtplib.SMTP = smtplib.SMTP_SSL(settings.server, settings.port, timeout=_SECONDS, context=context)
    else:
        connection = smtplib.SMTP(settings.server, settings.port, timeout=_SECONDS)
    with connection:
        if settings.security == "starttls":
            connection.starttls(context=context)
        if settings.user:
            connection.login(settings.user, settings.password)
        connection.send_message(message)
