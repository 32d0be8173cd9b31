"""*Load another bank*: from a folder or uploaded scores to a new bank, one question a step.

Draws the steps, their errors, Back and Next; what is found and written is decided in `core.bank`.
"""

import streamlit as st

from pages.shared import wizard_save, wizard_steps
from pages.shared.show import on_primary, plain
from pages.shared.wizard_state import STEPS, back, close, is_open, start, wizard

__all__ = ["draw", "is_open", "load_button"]
BODIES = (
    wizard_steps.where,
    wizard_steps.found,
    wizard_steps.match,
    wizard_steps.base,
    wizard_save.problems,
    wizard_save.save,
)


def load_button() -> None:
    """The button that opens the wizard."""
    st.button(
        "Load another bank",
        key="load_bank",
        on_click=start,
        icon=":material/add:",
        help="Make a bank of checkpoints and score files of yours.",
    )


def draw() -> None:
    """The present step, with what went wrong in it and the way on."""
    state = wizard()
    st.title("Load another bank", anchor=False)
    here = [f"**{one}**" if at == state.at else one for at, one in enumerate(STEPS)]
    st.markdown(f"Step {state.at + 1} of {len(STEPS)}: {' · '.join(here)}", anchors=False)
    go_on = BODIES[state.at]()
    if state.error:
        st.error(plain(state.error), icon=":material/error:")
    with st.container(horizontal=True, gap="small"):
        if state.at:
            st.button("Back", key="load_back", on_click=back)
        st.button(
            on_primary(go_on.label, disabled=go_on.disabled),
            key="load_next",
            type="primary",
            on_click=go_on.run,
            disabled=go_on.disabled,
            help=go_on.why or None,
        )
        st.button("Close", key="load_close", on_click=close, type="tertiary", help="Forget this and go back.")
