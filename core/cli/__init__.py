"""The shell: `python -m core …`. One module a group of commands; each imports what it runs when it runs."""

from core.cli.app import main

__all__ = ["main"]
