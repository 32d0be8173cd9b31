"""What a `bank.yaml` may say, and errors that point at the line that says otherwise.

Takes the text of the file and gives a checked `BankFile`; knows nothing about scores or folders.
"""

import difflib
import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from core.errors import BankError

MAX_YAML_BYTES = 4_000_000
# The C loader gives the same nodes and marks as SafeLoader, ten times sooner.
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _id_text(value: Any) -> Any:
    """Let people write `id: 200` without quotes; anything else is left for pydantic to judge."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Id = Annotated[str, BeforeValidator(_id_text), Field(min_length=1)]
Count = Annotated[int, Field(ge=0, strict=True)]
ProblemKind = Literal["missing", "order", "duplicated", "prompts", "outside", "unscored", "samples", "limited"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CheckpointFile(_Strict):
    """One entry under `checkpoints`, or `base`."""

    id: Annotated[Id, Field(description="Name in the score files; unique in the bank.")]
    step: Annotated[Count | None, Field(description="Training step.")] = None
    path: Annotated[
        str | None, Field(description="Folder of the weights, absolute or inside the bank; none: scores only.")
    ] = None
    hub: Annotated[
        str | None, Field(description="`owner/name@COMMIT/subfolder` on the Hugging Face Hub, in place of `path`.")
    ] = None


class ProtocolFile(_Strict):
    """The sampling settings behind a score file; the keys of `core.evals.protocol.Protocol`."""

    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False, description="Sampling temperature.")] = 0.5
    samples: Annotated[int, Field(ge=1, strict=True, description="Samples a task.")] = 1
    seed: Annotated[Count, Field(description="Seed of the sampling.")] = 0
    dtype: Annotated[Literal["float32", "bfloat16", "float16"], Field(description="What the model was run in.")] = (
        "float32"
    )
    max_new_tokens: Annotated[int, Field(ge=1, strict=True, description="Longest answer.")] = 32


class MoreScoresFile(_Strict):
    """Scores of the same tasks under another protocol."""

    path: Annotated[str, Field(description="JSONL, as `scores`.")]
    protocol: Annotated[ProtocolFile, Field(description="How they were sampled.")]


class ProblemFile(_Strict):
    """One kind of problem that was found between the checkpoints' scores, and the choice that settled it."""

    kind: Annotated[ProblemKind, Field(description="What did not fit; each kind is explained below.")]
    checkpoints: Annotated[Count, Field(description="Checkpoints that had it.")]
    tasks: Annotated[Count, Field(description="Tasks it was about, over all checkpoints.")]
    choice: Annotated[str, Field(min_length=1, description="What was done about it, such as `intersect` or `first`.")]


class AlignmentFile(_Strict):
    """How the scores of a split were made comparable; kept so that every recipe can say so."""

    problems: Annotated[tuple[ProblemFile, ...], Field(description="What did not fit, each kind with its choice.")] = ()
    tasks_found: Annotated[Count, Field(description="Tasks that any checkpoint had a score of.")]
    tasks_dropped: Annotated[Count, Field(description="Tasks that the choices left out.")] = 0
    dropped: Annotated[tuple[Id, ...], Field(description="Their ids; of many, the first.")] = ()
    left_out: Annotated[tuple[Id, ...], Field(description="Names of scores that no checkpoint was matched to.")] = ()
    matched: Annotated[
        dict[Id, Id], Field(description="Names in the score files, where they are not the checkpoint's id.")
    ] = Field(default_factory=dict)
    sources: Annotated[tuple[str, ...], Field(description="Files the scores came from; of many, the first.")] = ()


class SplitFile(_Strict):
    """One task set and where its scores are."""

    scores: Annotated[str, Field(description="JSONL, a row a sample: `checkpoint, task, score`, see below.")]
    tasks: Annotated[str | None, Field(description="JSONL, a row a task: `id, scenario, prompt, target, scorer`.")] = (
        None
    )
    protocol: Annotated[ProtocolFile | None, Field(description="How the scores were sampled.")] = None
    more_scores: Annotated[
        tuple[MoreScoresFile, ...], Field(description="The same tasks scored under other protocols.")
    ] = ()
    replicates: Annotated[
        str | None, Field(description="JSONL: repeated evaluations of one checkpoint, whose rows differ in `seed`.")
    ] = None
    alignment: Annotated[AlignmentFile | None, Field(description="How scores that did not fit were settled.")] = None


class FactFile(_Strict):
    """A statement to show beside the scores."""

    label: Annotated[str, Field(description="What it is about.")]
    value: Annotated[str | int | float, Field(description="What it says.")]
    source: Annotated[str | None, Field(description="Where it is from.")] = None


class BankFile(_Strict):
    """The whole of a `bank.yaml`."""

    name: Annotated[Id, Field(description="A short name; used for files and runs.")]
    title: Annotated[str | None, Field(description="Heading of the Bank page; the name where there is none.")] = None
    description: Annotated[str, Field(description="One sentence under the heading.")] = ""
    kind: Annotated[
        Literal["measured", "illustrative"], Field(description="Whether the scores were measured or made up.")
    ] = "measured"
    base: Annotated[CheckpointFile, Field(description="What the checkpoints were trained from.")]
    checkpoints: Annotated[
        tuple[CheckpointFile, ...], Field(min_length=1, description="The pool, in the order of its rows.")
    ]
    splits: Annotated[dict[Id, SplitFile], Field(min_length=1, description="Task sets by name, such as dev and test.")]
    facts: Annotated[tuple[FactFile, ...], Field(description="Statements to show beside the scores.")] = ()
    notes: Annotated[str, Field(description="Anything else worth keeping.")] = ""


class Located:
    """The YAML node tree of one file: gives `file:line` for a path of keys and positions."""

    def __init__(self, where: Path, root: yaml.Node) -> None:
        self.where = where
        self.root = root

    def at(self, path: Sequence[str | int]) -> str:
        """`file:line` of the deepest node on `path` that exists."""
        node, line = self.root, self.root.start_mark.line
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            node, line = found
        return f"{self.where}:{line + 1}"


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node, int] | None:
    """The node under a key (with the key's own line) or at a position."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, key.start_mark.line
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark.line
    return None


def parse_bank_yaml(path: Path) -> tuple[BankFile, Located]:
    """Read and check a `bank.yaml`.

    Raises BankError, with file and line, for a file that cannot be read, is over 4 MB, is not YAML,
    uses a key twice, has an unknown key (the nearest known one is suggested), lacks one, or holds a
    value of the wrong type. Only plain YAML is read: tags that would build Python objects are errors.
    """
    try:
        size = path.stat().st_size
        if size > MAX_YAML_BYTES:
            raise BankError(f"{path}: is {size:,} bytes. Expected a bank.yaml of at most {MAX_YAML_BYTES:,} bytes.")
        text = path.read_bytes().decode("utf-8")
    except OSError as problem:
        raise BankError(f"{path}: cannot be read ({problem.strerror}). Expected a bank.yaml.") from None
    except UnicodeDecodeError:
        raise BankError(f"{path}: is not UTF-8 text. Expected a bank.yaml.") from None
    value, root = _load_yaml(text, path)
    located = Located(path, root)
    try:
        return BankFile.model_validate(value), located
    except ValidationError as problem:
        raise BankError(_first_problem(problem, located)) from None


def _load_yaml(text: str, path: Path) -> tuple[Any, yaml.Node]:
    loader = _LOADER(text)
    try:
        root = loader.get_single_node()
        if root is None:
            raise BankError(f"{path}: is empty. Expected name, base, checkpoints and splits.")
        _refuse_repeated_keys(root, path)
        return loader.construct_document(root), root
    except yaml.MarkedYAMLError as problem:
        line = f":{problem.problem_mark.line + 1}" if problem.problem_mark else ""
        raise BankError(f"{path}{line}: is not plain YAML ({problem.problem}). See data/s3_card/bank.yaml.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise BankError(f"{path}: is not plain YAML ({str(problem).splitlines()[0]}).") from None
    finally:
        loader.dispose()


def _refuse_repeated_keys(root: yaml.Node, path: Path) -> None:
    pending, seen_nodes = [root], set()
    while pending:
        node = pending.pop()
        if id(node) in seen_nodes:
            continue
        seen_nodes.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending.extend(node.value)
        if not isinstance(node, yaml.MappingNode):
            continue
        keys: dict[str, int] = {}
        for key, value in node.value:
            pending.append(value)
            name = str(key.value)
            if name in keys and name != "<<":
                first = keys[name] + 1
                raise BankError(
                    f"{path}:{key.start_mark.line + 1}: key '{reprlib.repr(name)[1:-1]}' is given twice "
                    f"(first on line {first}). Keep one."
                )
            keys[name] = key.start_mark.line


def _first_problem(problem: ValidationError, located: Located) -> str:
    """One of pydantic's complaints in our own words, with the number of the others."""
    errors = problem.errors(include_url=False)
    # A misspelt key is also a missing one: say the former.
    one = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    loc = tuple(part for part in one["loc"] if not _is_union_tag(part))
    name = ".".join(str(part) for part in loc) or "the file"
    more = f" ({len(errors) - 1} more problems in this file.)" if len(errors) > 1 else ""
    if one["type"] == "extra_forbidden":
        return f"{located.at(loc)}: unknown key '{loc[-1]}'{_suggestion(loc)}{more}"
    if one["type"] == "missing":
        return f"{located.at(loc[:-1])}: key '{name}' is missing. See data/s3_card/bank.yaml.{more}"
    found = reprlib.repr(one["input"])
    return f"{located.at(loc)}: '{name}': {_lower_first(one['msg'])}; found {found}.{more}"


def _is_union_tag(part: str | int) -> bool:
    return part in ("str", "int", "float", "[key]")


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _suggestion(loc: Sequence[str | int]) -> str:
    """` in 'splits.dev'. Did you mean 'scores'? Known keys: ...` for an unknown key."""
    known = sorted(_model_at(loc[:-1]).model_fields)
    near = difflib.get_close_matches(str(loc[-1]), known, n=1, cutoff=0.5)
    place = f" in '{'.'.join(str(part) for part in loc[:-1])}'" if len(loc) > 1 else ""
    return f"{place}.{f' Did you mean {near[0]!r}?' if near else ''} Known keys: {', '.join(known)}."


def _model_at(loc: Sequence[str | int]) -> type[BaseModel]:
    """Which model a path of keys leads to."""
    if not loc:
        return BankFile
    if loc[0] in ("base", "checkpoints"):
        return CheckpointFile
    if loc[0] == "facts":
        return FactFile
    if loc[-1] == "protocol":
        return ProtocolFile
    if "problems" in loc:
        return ProblemFile
    if loc[-1] == "alignment":
        return AlignmentFile
    return MoreScoresFile if "more_scores" in loc else SplitFile
