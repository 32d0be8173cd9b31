"""The one table of recipe knobs: name, type, range, default, help. Everything else is made from it.

Widgets, the URL, YAML, validation and documentation read `KNOBS`; knows nothing about any of them.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from core.recipe.model import Dtype, Recipe, Similarity, Weighting

KnobType = Literal["float", "int", "choice", "ids", "bool"]


@dataclass(frozen=True)
class Knob:
    """One setting of a recipe. `name` is the field of `Recipe` and the key in a URL or YAML."""

    name: str
    symbol: str
    """Short sign for charts and one-line summaries."""
    label: str
    type: KnobType
    """`ids` is a list of checkpoint ids; a `choice` without `choices` takes its values from the bank."""
    default: float | int | str | bool | tuple[str, ...]
    low: float | None = None
    """Lowest value of a slider; None where it does not apply."""
    high: float | None = None
    """Highest value of a slider; None for K, where it is the size of the pool."""
    step: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""
    help: str = ""
    at_least: float | None = None
    """Smallest value that is valid, which may lie outside the slider."""
    above: float | None = None
    """Valid values are larger than this."""
    at_most: float | None = None
    """Largest value that is valid."""

    @property
    def valid(self) -> str:
        """What is accepted, in words, such as `above 0, at most 1`."""
        if self.type == "choice":
            return "one of " + ", ".join(self.choices) if self.choices else "a split of the bank"
        if self.type == "ids":
            return "ids of the bank's checkpoints"
        if self.type == "bool":
            return "true or false"
        bounds = (("above", self.above), ("at least", self.at_least), ("at most", self.at_most))
        said = ", ".join(f"{word} {value:g}" for word, value in bounds if value is not None)
        return said or "any number"


_DEFAULT = Recipe()

KNOBS: tuple[Knob, ...] = (
    Knob(
        name="lam",
        symbol="λ",
        label="Relevance against diversity",
        type="float",
        default=_DEFAULT.lam,
        low=0.0,
        high=1.0,
        step=0.01,
        at_least=0.0,
        at_most=1.0,
        help="How much a checkpoint's own score counts against being unlike the picks so far. Each step takes the "
        "largest λ·q − (1−λ)·(highest similarity to a pick). 1 takes the strongest, 0 the most different. "
        "The first pick has no penalty: it is the strongest, whatever λ is.",
    ),
    Knob(
        name="k",
        symbol="K",
        label="Picks",
        type="int",
        default=_DEFAULT.k,
        low=1,
        step=1,
        at_least=1,
        unit="checkpoints",
        help="How many checkpoints to merge: at least the number pinned, at most the pool less the banned ones.",
    ),
    Knob(
        name="tau",
        symbol="τ",
        label="Weight temperature",
        type="float",
        default=_DEFAULT.tau,
        low=0.001,
        high=1.0,
        step=0.001,
        above=0.0,
        unit="score",
        help="How steeply weights follow scores: weight = exp(q/τ), divided by the sum over the picks. A pick that is "
        "τ behind the best gets 1/2.72 of its weight. Small: the strongest takes all. Large: all equal.",
    ),
    Knob(
        name="weighting",
        symbol="w",
        label="Weights",
        type="choice",
        default=_DEFAULT.weighting,
        choices=get_args(Weighting),
        help="softmax: weights follow scores by τ. uniform: every pick gets 1/K, and τ has no effect.",
    ),
    Knob(
        name="similarity",
        symbol="sim",
        label="Similarity",
        type="choice",
        default=_DEFAULT.similarity,
        choices=get_args(Similarity),
        help="How alike two checkpoints' per-task scores are. cosine: a·b/(‖a‖‖b‖). pearson: cosine after each mean is "
        "subtracted (phi for 0/1 scores). jaccard: Σmin/Σmax. agreement: 1 − mean |a−b|. All lie in [0, 1] except "
        "pearson, which can be negative: a negative similarity adds to a candidate's score instead of taking away. "
        "A checkpoint that scores 0 everywhere has similarity 0 to all.",
    ),
    Knob(
        name="split",
        symbol="split",
        label="Scores from",
        type="choice",
        default=_DEFAULT.split,
        help="The task set whose scores choose and weight the picks. A held-out split should not be used to choose.",
    ),
    Knob(
        name="pin",
        symbol="pin",
        label="Always pick",
        type="ids",
        default=(),
        help="Checkpoints that are picked first, in this order, whatever their scores. They count towards K.",
    ),
    Knob(
        name="ban",
        symbol="ban",
        label="Never pick",
        type="ids",
        default=(),
        help="Checkpoints that are left out of the pool.",
    ),
    Knob(
        name="density",
        symbol="density",
        label="TIES density",
        type="float",
        default=_DEFAULT.density,
        low=0.05,
        high=1.0,
        step=0.05,
        above=0.0,
        at_most=1.0,
        help="Share of each pick's changes that is kept, tensor by tensor, largest first: int(density · n) of n. "
        "1 keeps all. Where a pick changed fewer parameters than that, it trims nothing.",
    ),
    Knob(
        name="scale",
        symbol="scale",
        label="TIES scale",
        type="float",
        default=_DEFAULT.scale,
        low=0.0,
        high=2.0,
        step=0.05,
        help="Factor on the merged change before it is added to the base: base + scale · δ. mergekit calls it lambda.",
    ),
    Knob(
        name="normalize",
        symbol="normalize",
        label="Divide by agreeing weights",
        type="bool",
        default=_DEFAULT.normalize,
        help="Divide each merged change by the weights of the picks that agree with its sign: Σw·δ / Σw. A parameter "
        "that one pick alone changed then keeps all of that change, however small the pick's weight.",
    ),
    Knob(
        name="out_dtype",
        symbol="dtype",
        label="File dtype",
        type="choice",
        default=_DEFAULT.out_dtype,
        choices=get_args(Dtype),
        help="Number format of the merged file. The arithmetic is float32 always; bfloat16 rounds small changes away.",
    ),
)


def knob(name: str) -> Knob:
    """The knob of that name; raises KeyError."""
    for one in KNOBS:
        if one.name == name:
            return one
    raise KeyError(name)


def knob_table_markdown() -> str:
    """The knobs as a Markdown table, for the documentation."""
    lines = ["| knob | sign | default | accepts | meaning |", "|---|---|---|---|---|"]
    for one in KNOBS:
        default = ", ".join(one.default) or "none" if isinstance(one.default, tuple) else str(one.default)
        unit = f" ({one.unit})" if one.unit else ""
        meaning = one.help.replace("|", "\\|")
        lines.append(f"| `{one.name}` | {one.symbol} | {default}{unit} | {one.valid} | {meaning} |")
    return "\n".join(lines) + "\n"
