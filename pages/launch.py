"""The *Merge and evaluate* panel of the sidebar: what would run, what it takes, and the button.

Submits a job through the ledger; nothing is merged or evaluated in the page's own process.
"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from core.bank.model import Bank
from core.errors import MergescopeError
from core.evals.protocol import Protocol
from core.preview.cost import Estimate, Work, estimate
from core.recipe import Selection, compile_plan, recipe_to_dict
from core.recipe.model import Recipe
from core.words import duration
from pages.shared.preflights import checked, needs, obstacles, particulars
from pages.shared.recipes import selection_or_none
from pages.shared.runs import OPEN, note, page_link
from pages.shared.show import ledger, on_primary
from pages.shared.topline import recipe_name

SPLITS, PROTOCOL, UNIFORM = "launch_splits", "launch_protocol", "launch_uniform"
SENT, REFUSED = "launch_sent", "launch_refused"
OTHER = Protocol(temperature=0.9, samples=8, seed=1)


def protocols_of(bank: Bank) -> list[Protocol]:
    """The bank's own protocol first, then the others that it has scores under, then T=0.9 with 8 samples."""
    first = next(iter(bank.splits.values()))
    own = first.protocol or Protocol()
    found = [own, *(one for one, _ in first.more_scores)]
    other = Protocol(OTHER.temperature, OTHER.samples, OTHER.seed, own.dtype, own.max_new_tokens)
    if not any(one.temperature == other.temperature and one.samples == other.samples for one in found):
        found.append(other)
    return found


def evaluable_splits(bank: Bank) -> list[str]:
    """Splits that have a task file."""
    return [name for name, one in bank.splits.items() if one.tasks_path is not None]


def refusal(bank: Bank, selection: Selection | None, splits: Sequence[str]) -> str | None:
    """Why the button cannot be pressed, or None when it can."""
    if not bank.has_weights:
        return "This bank has scores only: there are no weights to merge. Choose a bank with checkpoints above."
    if selection is None:
        return "The recipe is not valid for this bank; the message above says what to change."
    missing = [str(one.path) for one in members_of(bank, selection) if one.path is not None and not one.path.is_dir()]
    if missing:
        return f"No folder of weights at {missing[0]}. Put the checkpoint there, or correct bank.yaml."
    if not evaluable_splits(bank):
        return (
            "This bank has no task file to evaluate on: name one under tasks in bank.yaml. In a "
            "shell, python -m core plan and python -m core merge need none."
        )
    return None if splits else "No split is chosen. Choose at least one under What will run."


def members_of(bank: Bank, selection: Selection) -> list[Any]:
    """The base and the picks, as checkpoints of the bank."""
    return [bank.base, *(bank.checkpoints[bank.index_of(one.checkpoint)] for one in selection.picks)]


def spec_of(bank: Bank, recipe: Recipe, selection: Selection) -> dict[str, Any]:
    """What the job is asked to do, with the choices of the panel."""
    protocols = protocols_of(bank)
    chosen, can = st.session_state.get(PROTOCOL, 0), evaluable_splits(bank)
    protocol = protocols[chosen if chosen < len(protocols) else 0]
    return {
        "bank": str(bank.root),
        "recipe": recipe_to_dict(recipe),
        "plan": compile_plan(bank, recipe, selection),
        "splits": [one for one in st.session_state.get(SPLITS, can) if one in can],
        "protocol": protocol.as_dict(),
        "also_uniform": bool(st.session_state.get(UNIFORM, True)),
    }


def button(bank: Bank, recipe: Recipe) -> None:
    """Draw the panel for the live bank and recipe."""
    selection = selection_or_none(bank, recipe)
    with st.container(key="launch", gap="small"):
        can = evaluable_splits(bank)
        splits = [one for one in st.session_state.get(SPLITS, can) if one in can]
        reason = refusal(bank, selection, splits)
        spec = spec_of(bank, recipe, selection) if selection is not None and reason is None else None
        found = _preflight_or_none(bank, selection, recipe.out_dtype, spec) if selection and spec else None
        reasons = [reason] if reason is not None else obstacles(found) if found is not None else []
        if not reasons and _live_twin(spec):
            reasons = ["This exact merge is queued or running."]
        st.button(
            on_primary("Merge and evaluate", disabled=bool(reasons)),
            key="launch_go",
            type="primary",
            icon=":material/merge:",
            width="stretch",
            disabled=bool(reasons),
            on_click=_submit,
            args=(spec, f"{bank.name}: {recipe_name(bank, recipe)}"),
        )
        if spec is not None and found is not None:
            note(_figures(bank, spec, found))
        for one in reasons:
            note(one)
        if found is not None:
            particulars(found, "launch_preflight")
        _said()
        if bank.has_weights and can:
            _options(bank)


def _options(bank: Bank) -> None:
    """Splits, protocol and the uniform mean; folded away, with defaults that suit the bank."""
    names = evaluable_splits(bank)
    kept = [one for one in st.session_state.get(SPLITS, names) if one in names]
    if SPLITS not in st.session_state or kept != st.session_state[SPLITS]:
        st.session_state[SPLITS] = kept or names
    protocols = protocols_of(bank)
    if st.session_state.get(PROTOCOL, 0) >= len(protocols):
        st.session_state[PROTOCOL] = 0
    with st.expander("What will run", key="launch_options"):
        st.pills("Evaluate on", names, selection_mode="multi", key=SPLITS, persist_state="session")
        st.selectbox(
            "Protocol",
            range(len(protocols)),
            format_func=lambda at: f"{protocols[at].label}{'' if at else ' (bank)'}",
            key=PROTOCOL,
            persist_state="session",
            help="T is the sampling temperature, n the samples a task. Scores compare only under one protocol; under "
            "one that the bank has no scores for, the base and the best single checkpoint are evaluated again. "
            "More samples a task narrow the interval.",
        )
        st.toggle(
            "Also merge a uniform mean",
            value=True,
            key=UNIFORM,
            persist_state="session",
            help="The plain mean of every checkpoint of the bank, merged and evaluated alongside: the baseline that "
            "a recipe should beat.",
        )


def _live_twin(spec: dict[str, Any] | None) -> bool:
    return spec is not None and any(_same(one.spec, spec) for one in ledger().live_jobs())


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one.get(name) == other[name] for name in ("plan", "splits", "protocol", "also_uniform"))


def _submit(spec: dict[str, Any], title: str) -> None:
    """Queue the job; a callback, so that the top line knows it in the same run."""
    st.session_state.pop(REFUSED, None)
    try:
        identity = ledger().submit("merge_eval", spec, title)
    except (MergescopeError, OSError) as problem:
        st.session_state[REFUSED] = str(problem)
        return
    st.session_state[SENT] = identity
    st.session_state[OPEN] = identity


def _said() -> None:
    """What became of the last press."""
    refused, sent = st.session_state.get(REFUSED), st.session_state.get(SENT)
    if refused:
        st.error(refused, icon=":material/error:")
    elif sent:
        try:
            job = ledger().job(sent)
        except MergescopeError:  # its ledger was removed
            del st.session_state[SENT]
            return
        if job.live:
            note(f"{job.state.capitalize()} as run {sent}. It goes on when this page is closed.")
            page_link("runs", "Watch it in Runs")
        else:
            note(f"Run {sent}: {job.state}.")
            page_link(*(("results", "See the verdict") if job.state == "succeeded" else ("runs", "See why in Runs")))


def _preflight_or_none(bank: Bank, selection: Selection, out_dtype: str, spec: dict[str, Any]) -> Any:
    """Header-only checks of the plan, once per set of members; None where they cannot be made."""
    members = members_of(bank, selection)
    key = (*(str(one.path) for one in members), out_dtype)
    stamps = tuple(one.path.stat().st_mtime_ns for one in members)
    return checked(spec["plan"], bank.root / "config.yml", same=(*key, *stamps))


def _figures(bank: Bank, spec: dict[str, Any], found: Any) -> str:
    """Tensors, parameters, disk and time of the run, before it is started."""
    copies = 2 if spec["also_uniform"] else 1
    guess = _estimate(bank, spec, found.elements)
    basis = f"from {guess.runs} earlier runs" if guess.runs > 1 else "from an earlier run" if guess.runs else "rough"
    return f"{needs(found, copies)} About {duration(guess.seconds)} ({basis})."


def _estimate(bank: Bank, spec: dict[str, Any], elements: int) -> Estimate:
    home = ledger().home
    earlier = [(work_of(bank, one, elements), seconds) for one, seconds in _earlier(str(home), spec["bank"])]
    return estimate(work_of(bank, spec, elements), earlier)


@st.cache_resource(max_entries=32, show_spinner=False, ttl="5s")
def _earlier(home: str, bank: str) -> list[tuple[dict[str, Any], float]]:
    """What the last runs of a bank were asked for, and the seconds they took; at most five."""
    found = [
        (one.spec, one.finished - one.started)
        for one in ledger().jobs(50)
        if one.kind == "merge_eval"
        and one.state == "succeeded"
        and one.spec.get("bank") == bank
        and one.started
        and one.finished
    ]
    return found[:5]


def work_of(bank: Bank, spec: dict[str, Any], elements: int) -> Work:
    """The amount of work that a specification asks for."""
    protocol = Protocol(**spec["protocol"])
    splits = [bank.splits[name] for name in spec["splits"] if name in bank.splits]
    tasks = sum(len(one.tasks) for one in splits)
    scored = all(one.score_file(protocol) is not None for one in splits)
    uniform = bool(spec.get("also_uniform"))
    return Work(
        elements=elements,
        members=int(spec["recipe"]["k"]) + uniform * len(bank.checkpoints),
        evaluations=1 + uniform + (0 if scored else 2),
        samples=tasks * protocol.samples,
        tokens=protocol.max_new_tokens,
    )
