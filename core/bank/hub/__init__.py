"""Checkpoints on the Hugging Face Hub: listed from headers, pinned to a commit, downloaded by choice."""

from core.bank.hub.address import HubAddress, parse_address
from core.bank.hub.download import download
from core.bank.hub.listing import HubCheckpoint, HubListing, list_repository

__all__ = ["HubAddress", "HubCheckpoint", "HubListing", "download", "list_repository", "parse_address"]
