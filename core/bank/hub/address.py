"""Where a repository is on the Hugging Face Hub: parsed, checked, and written back; asks no network."""

import re
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from core.errors import BankError

NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?")
REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+/-]{0,199}")
EXPECTED = "Expected hf://owner/name[@revision][/subfolder], or the page's address on huggingface.co."


@dataclass(frozen=True)
class HubAddress:
    """A model repository, and possibly a revision and a folder in it."""

    repository: str
    revision: str | None = None
    subfolder: str = ""

    def at(self, revision: str, subfolder: str | None = None) -> "HubAddress":
        """The same repository at another revision, and in another folder where one is given."""
        return replace(self, revision=revision, subfolder=self.subfolder if subfolder is None else subfolder)

    def __str__(self) -> str:
        revision = f"@{self.revision.replace('/', '%2F')}" if self.revision else ""
        return f"hf://{self.repository}{revision}{'/' + self.subfolder if self.subfolder else ''}"


def parse_address(text: str) -> HubAddress:
    """Read an address; a `/` within a revision is written `%2F`.

    Raises BankError for anything else, and for names that lead out of their folder.
    """
    if text.startswith("hf://"):
        parts = text.removeprefix("hf://").rstrip("/").split("/")
        name, _, revision = (parts[1] if len(parts) > 1 else "").partition("@")
        return _checked(text, parts[0], name, unquote(revision) if "@" in "".join(parts[1:2]) else None, parts[2:])
    url = urlsplit(text)
    if url.scheme != "https" or url.netloc not in ("huggingface.co", "hf.co") or url.query or url.fragment:
        raise BankError(f"{text!r} is no address on the Hub. {EXPECTED}")
    parts = [unquote(one) for one in url.path.strip("/").split("/")]
    rest = parts[2:]
    if rest and (rest[0] not in ("tree", "blob") or len(rest) < 2):
        raise BankError(f"{text!r}: expected /tree/REVISION after the repository's name. {EXPECTED}")
    return _checked(text, parts[0], "".join(parts[1:2]), rest[1] if rest else None, rest[2:])


def _checked(text: str, owner: str, name: str, revision: str | None, folders: list[str]) -> HubAddress:
    for one in (owner, name):
        if not NAME.fullmatch(one) or ".." in one or "--" in one:
            raise BankError(f"{text!r}: {one!r} is no name of an owner or a repository on the Hub. {EXPECTED}")
    if revision is not None and (not REVISION.fullmatch(revision) or ".." in revision):
        raise BankError(f"{text!r}: {revision!r} is no branch, tag or commit. {EXPECTED}")
    check_path(text, "/".join(folders)) if folders else None
    return HubAddress(f"{owner}/{name}", revision, "/".join(folders))


def check_path(where: str, path: str) -> str:
    """A path inside a repository as it is. Raises BankError for one that could lead out of its folder."""
    bad = any(one in ("", ".", "..") for one in path.split("/"))
    if bad or any(one in '\\:*?[]"<>|' or not one.isprintable() for one in path):
        raise BankError(f"{where!r}: {path!r} is no path inside a repository. Write folders without '..' or wildcards.")
    return path
