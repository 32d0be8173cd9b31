"""`verify` and `reproduce`: whether a merge is still what was written, and whether it comes out the same again.

Takes merged folders; the work is in `core.merge`, imported when run.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.cli.options import JsonOption
from core.cli.output import emit, note, only_ours_on_stdout, progress_line, table
from core.errors import RunError
from core.words import file_size

if TYPE_CHECKING:
    from core.merge.reproduce import Reproduction
    from core.merge.verify import Verification

VERIFY_EXAMPLE = "Example: python -m core verify merged --inputs"
REPRODUCE_EXAMPLE = "Example: python -m core reproduce merged"
Merged = Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a finished merge.")]
LETTERS = 12
"""Of a SHA-256, where it is printed for people."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("verify", epilog=VERIFY_EXAMPLE)(verify)
    app.command("reproduce", epilog=REPRODUCE_EXAMPLE)(reproduce)


def verify(
    out: Merged,
    *,
    inputs: Annotated[bool, typer.Option("--inputs", help="Check the models that went in, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a merge's files against the sizes and SHA-256 that its provenance.json records."""
    with only_ours_on_stdout(), progress_line("verify") as progress:
        from core.merge.verify import verify as check

        found = check(out, inputs=inputs, progress=progress)
    emit(found.as_dict()) if as_json else print(_verified(found))
    wrong = [one for one in found.files if one.status != "ok"]
    if wrong:
        raise RunError(f"{out}: {len(wrong):,} of {len(found.files):,} files are not as recorded ({wrong[0].file}).")


def _verified(found: "Verification") -> str:
    rows = [
        [one.status, one.role, one.file, None if one.bytes is None else file_size(one.bytes), one.why]
        for one in found.files
    ]
    counts = {
        status: sum(one.status == status for one in found.files) for status in ("ok", "changed", "missing", "extra")
    }
    said = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)
    return f"{table(rows, ('', 'of', 'file', 'size', ''))}\n\n{len(found.files):,} files: {said or 'none'}."


def reproduce(
    out: Merged,
    *,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep the repetition here; it is removed otherwise.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Merge again what a merge was made from, and compare every weight file byte for byte."""
    with only_ours_on_stdout(), progress_line("reproduce") as progress:
        from core.merge.reproduce import reproduce as repeat

        found = repeat(out, keep=keep, progress=progress)
    emit(found.as_dict()) if as_json else print(_reproduced(found))
    if found.ok:
        return
    for one in found.other_versions:
        note(f"other version: {one}")
    raise RunError(f"{out}: the repetition differs. {found.difference}")


def _reproduced(found: "Reproduction") -> str:
    rows = [
        ["same" if one.same else "differs", one.file, _short(one.sha256), _short(one.repeated_sha256)]
        for one in found.files
    ]
    same = sum(one.same for one in found.files)
    lines = [table(rows, ("", "file", "merge", "repeated")), ""]
    lines.append(f"{same:,} of {len(found.files):,} weight files are the same, byte for byte.")
    if found.kept:
        lines.append(f"The repetition is in {found.kept}.")
    return "\n".join(lines)


def _short(sha256: str | None) -> str:
    return "-" if sha256 is None else f"{sha256[:LETTERS]}…"
