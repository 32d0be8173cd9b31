"""The lens on the Precision page: survival against scale, what would save the merge, and the dialects side by side.

Takes the folder of one merge; the figures come from `core.precision.lens` and `core.preview.dialects`. Merges nothing.
"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from core.charts import lens as figures
from core.errors import MergescopeError
from pages.shared.show import chart, is_dark, say

if TYPE_CHECKING:
    from core.merge import Plan
    from core.precision.lens import LensReport
    from core.preview.dialects import DialectReport

PLAN_FILE = "mergekit_config.yml"
MOST = 100_000_000
"""Parameters up to which the dialects are compared on the page: their thresholds need whole models."""


def draw(folder: Path) -> None:
    """Both parts for a merge at `folder`."""
    try:
        plan = _plan(str(folder), _stamp(folder / PLAN_FILE))
    except OSError:
        return
    except MergescopeError as problem:
        say(problem)
        return
    _survival(folder, plan)
    _dialects(folder, plan)


def _survival(folder: Path, plan: "Plan") -> None:
    from core.merge import checkpoint_summary

    st.header(
        "What survives, and what would save it",
        anchor=False,
        help="Each point takes the merge's change times a scale, adds it to the base, rounds to the format and counts "
        "the changed parameters that still differ from the base. Rounding at random goes up or down with the nearer "
        "number likelier, so that it is right on average.",
    )
    base = plan.base or plan.members[0].path
    try:
        if checkpoint_summary(folder)[0] != "float32":
            st.markdown(
                "The merged file is not float32: what it lost can no longer be seen in it. Merge with *out dtype* "
                "float32 to look at what a narrower file would lose.",
                anchors=False,
            )
            return
        found = _lens(str(base), str(folder), _weights_stamp(base), _weights_stamp(folder))
    except MergescopeError as problem:
        say(problem)
        return
    st.markdown(figures.cliff_sentence(found), anchors=False)
    chart(
        figures.survival_chart(found, dark=is_dark()),
        alt=figures.survival_alt(found),
        table=lambda: figures.survival_table(found),
        key="survival_chart",
    )
    _what_would_save(found, folder)


def _what_would_save(found: "LensReport", folder: Path) -> None:
    st.markdown(figures.saving_sentence(found), anchors=False)
    st.dataframe(
        figures.files_table(found),
        hide_index=True,
        key="files_table",
        alt="What each kind of file would keep of the merge",
        column_config={
            "MB": st.column_config.NumberColumn(format="%.2f"),
            "lost, % of changed": st.column_config.NumberColumn(format="%.2f"),
            "bias, mean |δ|": st.column_config.NumberColumn(format="%.4f"),
            "error ÷ change": st.column_config.NumberColumn(format="%.4f"),
        },
    )
    st.markdown("To write bf16 and the residual, and the float32 again from both:", anchors=False)
    merged, narrow, again = (shlex.quote(f"{folder}{end}") for end in ("", "-bf16", "-fp32"))
    commands = f"python -m core sidecar write {merged} {narrow}\npython -m core sidecar restore {narrow} {again}"
    st.code(commands, language="bash", wrap_lines=True)


def _dialects(folder: Path, plan: "Plan") -> None:
    if plan.method != "ties" or plan.engine != "streaming":
        return
    st.header(
        "Three dialects of TIES",
        anchor=False,
        help="mergekit trims each tensor and votes with the weights; the paper's own code trims the whole model, votes "
        "without weights and takes the plain mean; sum is the paper's without the division.",
    )
    st.markdown(
        "The same plan merged three ways: the share of parameters that come out differently, and how far.",
        anchors=False,
    )
    from core.merge import checkpoint_summary

    if checkpoint_summary(folder)[1] > MOST:
        st.markdown("For a model of this size it takes a while; compare in a shell:", anchors=False)
        st.code(f"python -m core dialects {shlex.quote(str(folder / PLAN_FILE))}", language="bash", wrap_lines=True)
        return
    if not st.toggle("Compare them", key="compare_dialects"):
        return
    try:
        found = _compared(str(folder), _stamp(folder / PLAN_FILE))
    except MergescopeError as problem:
        say(problem)
        return
    st.dataframe(
        figures.dialects_table(found),
        hide_index=True,
        key="dialects_table",
        alt="Share of parameters that differ between two dialects, and the norm of the difference",
        column_config={
            "‖difference‖": st.column_config.NumberColumn(format="%.4f"),
            "÷ ‖change of the first‖": st.column_config.NumberColumn(format="%.3f"),
        },
    )
    basis = "every parameter" if found.exact else f"{found.looked:,} parameters in random blocks, 95 % intervals"
    st.caption(f"Measured at {basis}; the trim's thresholds are exact. {' '.join(found.warnings)}")


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _weights_stamp(folder: Path) -> tuple[tuple[int, int], ...]:
    return tuple(_stamp(one) for one in sorted(folder.glob("*.safetensors")))


@st.cache_resource(max_entries=8, show_spinner=False)
def _plan(folder: str, stamp: tuple[int, int]) -> "Plan":
    from core.merge.record import read_record
    from core.merge.reproduce import recorded_plan

    # Paths in the config may be relative to where it lay when the merge was made.
    return recorded_plan(Path(folder), read_record(Path(folder)))


@st.cache_resource(max_entries=8, show_spinner="Looking at what survives…")
def _lens(base: str, folder: str, *stamps: tuple[tuple[int, int], ...]) -> "LensReport":
    from core.precision.lens import lens

    return lens(Path(base), Path(folder), limit=1_000_000)


@st.cache_resource(max_entries=8, show_spinner="Comparing the dialects…")
def _compared(folder: str, stamp: tuple[int, int]) -> "DialectReport":
    from core.preview.dialects import compare_dialects

    return compare_dialects(_plan(folder, stamp), limit=2_000_000)
