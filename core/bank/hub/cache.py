"""Where the Hub's cache keeps a folder of a repository at one commit; asks no network."""

import re
from pathlib import Path

from core.bank.hub.address import HubAddress
from core.errors import BankError


def cached_folder(address: HubAddress) -> Path:
    """The local folder of a downloaded checkpoint, whether or not it is there yet.

    Raises BankError for an address that is not pinned to a full commit.
    """
    if not re.fullmatch(r"[0-9a-f]{40}", address.revision or ""):
        raise BankError(f"{address}: expected a full commit of 40 digits after '@'. `hub list` prints the pinned one.")
    from huggingface_hub import constants

    name = "--".join(("models", *address.repository.split("/")))
    return Path(constants.HF_HUB_CACHE) / name / "snapshots" / (address.revision or "") / address.subfolder
