"""Reads a mergekit YAML config into a `Plan`, with mergekit 0.1.5's own rules for parameters.

`ties`, `task_arithmetic` and `linear` with plain numbers become streaming plans; everything else is left
to mergekit itself. Looks at which folders exist, never into them.
"""

import difflib
import math
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import yaml

from core.errors import PlanError
from core.merge.plan import AUTO, DIALECTS, VOCABULARIES, Member, Plan

STREAMING = ("ties", "task_arithmetic", "linear")
METHODS = (
    *STREAMING, "arcee_fusion", "breadcrumbs", "breadcrumbs_ties", "dare_linear", "dare_ties", "della",
    "della_linear", "karcher", "model_stock", "multislerp", "nearswap", "nuslerp", "passthrough", "ram",
    "ramplus_tl", "sce", "slerp",
)  # fmt: skip
"""mergekit 0.1.5's merge methods."""
DTYPES = ("float32", "bfloat16", "float16", "float64")
MAX_BYTES = 1_000_000
ONLY_MERGEKIT = ("slices", "modules", "tokenizer_source", "tokenizer", "chat_template")
KNOWN = ("models", "merge_method", "base_model", "dtype", "out_dtype", "parameters", *ONLY_MERGEKIT)
SHARED = {"ties": ("normalize", "lambda", "int8_mask", "rescale"), "linear": ("normalize",)}
SHARED["task_arithmetic"] = SHARED["ties"]
PER_MODEL = {"ties": ("weight", "density"), "task_arithmetic": ("weight", "density"), "linear": ("weight",)}


class NeedsMergekit(Exception):
    """The config asks for something that only mergekit does; the message says what."""


@dataclass
class _Config:
    """The parsed mapping and where it came from."""

    data: dict[str, Any]
    where: Path
    text: str
    method: str
    warnings: list[str] = field(default_factory=list)

    def fail(self, what: str) -> NoReturn:
        raise PlanError(f"{self.where}: {what}")

    def warn(self, what: str) -> None:
        if what not in self.warnings:
            self.warnings.append(what)


def read_plan(path: Path) -> Plan:
    """Read a mergekit config file. Raises PlanError, naming the file and the key that is wrong."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise PlanError(f"{path}: is larger than {MAX_BYTES:,} bytes. Expected a mergekit config.")
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise PlanError(f"{path}: cannot be read ({problem.strerror}). Expected a mergekit config.") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: is not UTF-8 text. Expected a mergekit config.") from None
    return parse_plan(text, path)


def parse_plan(text: str, where: Path) -> Plan:
    """Parse a mergekit config.

    `where` names it in messages; relative model paths are looked up in its folder (or in `where` itself if
    that is a folder), then in the working directory. Raises PlanError.
    """
    config = _load(text, Path(where))
    try:
        return _streaming(config)
    except NeedsMergekit as needed:
        reason = str(needed)
    except RecursionError:
        raise PlanError(f"{where}: an alias in this YAML refers to itself.") from None
    try:
        return _for_mergekit(config, reason)
    except RecursionError:
        raise PlanError(f"{where}: an alias in this YAML refers to itself.") from None


def with_vocabulary(plan: Plan, vocabulary: str) -> Plan:
    """The plan with the choice for embeddings of unequal rows, which a mergekit config cannot express.

    Raises PlanError for an unknown choice, and for `truncate` where mergekit itself would merge: it has rules of
    its own.
    """
    if vocabulary not in VOCABULARIES:
        raise PlanError(f"vocabulary: expected {' or '.join(VOCABULARIES)}, found {vocabulary!r:.80}.")
    if vocabulary == "truncate" and plan.engine == "mergekit":
        raise PlanError(
            f"vocabulary truncate needs the streaming engine; this merge needs mergekit itself ({plan.reason}), which "
            "treats unequal vocabularies by rules of its own (`tokenizer_source`)."
        )
    return replace(plan, vocabulary="truncate" if vocabulary == "truncate" else "refuse")


def with_dialect(plan: Plan, dialect: str) -> Plan:
    """The plan in another dialect of TIES, which a mergekit config cannot express; see `dialect.py`.

    Raises PlanError for an unknown dialect, and for another than mergekit's where the plan is no streaming ties.
    """
    if dialect not in DIALECTS:
        raise PlanError(f"dialect: expected {', '.join(DIALECTS)}, found {dialect!r:.80}.")
    if dialect == "mergekit":
        return replace(plan, dialect="mergekit")
    if plan.method != "ties" or plan.engine == "mergekit":
        raise PlanError(
            f"dialect {dialect} is a way to do ties; this plan's method is {plan.method}"
            + (f", which mergekit itself must run ({plan.reason})." if plan.reason else ".")
        )
    ignored = []
    if len({one.weight for one in plan.members}) > 1:
        ignored.append(f"the dialect {dialect} ignores the members' weights: every member votes and counts alike.")
    if not plan.normalize and dialect == "paper":
        ignored.append(
            "the dialect paper takes the plain mean, whatever normalize says; the dialect sum does not divide."
        )
    return replace(plan, dialect="paper" if dialect == "paper" else "sum", warnings=(*plan.warnings, *ignored))


def _load(text: str, where: Path) -> _Config:
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as problem:
        raise PlanError(f"{where}: is not valid YAML ({' '.join(str(problem).split())}).") from None
    if not isinstance(data, dict):
        raise PlanError(f"{where}: expected a mergekit config (a mapping), found {type(data).__name__}.")
    method = data.get("merge_method")
    if method not in METHODS:
        near = difflib.get_close_matches(str(method), METHODS, 1)
        hint = f" Did you mean {near[0]}?" if near else f" Expected one of {', '.join(METHODS)}."
        raise PlanError(f"{where}: merge_method {method!r} is not one of mergekit's.{hint}")
    config = _Config(data, where, text, method)
    kinds = [key for key in ("models", "slices", "modules") if data.get(key)]
    if len(kinds) != 1:
        config.fail(f"expected exactly one of models, slices or modules, found {', '.join(kinds) or 'none'}.")
    for key in data:
        if key not in KNOWN:
            config.warn(f"key {key!r} is not one of mergekit's: ignored, as mergekit does.")
    return config


def _streaming(config: _Config) -> Plan:
    if config.method not in STREAMING:
        raise NeedsMergekit(f"merge_method {config.method}")
    for key in ONLY_MERGEKIT:
        if config.data.get(key):
            raise NeedsMergekit(f"key {key}")
    dtype, out_dtype = _dtypes(config)
    shared = _mapping(config, config.data.get("parameters"), "parameters")
    base = _reference(config, config.data.get("base_model"), "base_model") if config.data.get("base_model") else None
    if base is None and config.method != "linear":
        config.fail(f"{config.method} needs a base_model.")
    members = _members(config, shared, base)
    normalize = _bool(config, shared.get("normalize", config.method != "task_arithmetic"), "normalize")
    scale = 1.0 if config.method == "linear" else _number(config, shared.get("lambda", 1.0), "lambda")
    _check_shared(config, shared)
    if normalize and config.method == "linear" and _fp32_sum(members) == 0:
        config.fail("the weights sum to zero, so a normalized linear merge is undefined. Set normalize: false.")
    return Plan(
        config.method, _resolve(config, base) if base else None, members, normalize, scale, dtype, out_dtype,
        "streaming", config.text, tuple(config.warnings), folder=_folder(config.where),
    )  # fmt: skip


def _dtypes(config: _Config) -> tuple[str, str]:
    names = []
    for key in ("dtype", "out_dtype"):
        value = config.data.get(key)
        name = str(value).removeprefix("torch.") if value else ""
        if name and name not in DTYPES:
            config.fail(f"{key} {value!r} is not known. Expected one of {', '.join(DTYPES)}.")
        names.append(name)
    if "float64" in names:
        raise NeedsMergekit("float64")
    dtype, out_dtype = names
    if dtype != "float32":
        found = f"dtype is {dtype}" if dtype else "no dtype is given"
        config.warn(
            f"{found}: mergekit would compute in that dtype; here inputs are read as they are, the arithmetic is "
            f"float32 and only the result is cast. Say so with `dtype: float32` and `out_dtype`."
            if dtype
            else f"{found}: mergekit would compute in the inputs' dtype; here the arithmetic is float32 and only the "
            "result is cast. Say so with `dtype: float32` and `out_dtype`."
        )
    return dtype or AUTO, out_dtype or dtype or AUTO


def _members(config: _Config, shared: dict[str, Any], base: str | None) -> tuple[Member, ...]:
    entries = config.data["models"]
    if not isinstance(entries, list):
        config.fail(f"models: expected a list, found {type(entries).__name__}.")
    found: dict[str, Member | None] = {}
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict) or "model" not in entry:
            config.fail(f"models, entry {number}: expected `model:` and its parameters.")
        name = _reference(config, entry["model"], f"models, entry {number}")
        if name in found:
            config.fail(f"models, entry {number}: {name} is listed twice.")
        own = _mapping(config, entry.get("parameters"), f"models, entry {number}, parameters")
        skip = name == base and config.method != "linear"
        found[name] = None if skip else _member(config, name, own, shared)
    if base is not None and base not in found and config.method == "linear":
        found[base] = _member(config, base, {}, shared)
        config.warn(
            "linear counts the base_model as one more model, with the weight of `parameters`, as mergekit does."
        )
    members = tuple(one for one in found.values() if one is not None)
    if not members:
        config.fail("models: expected at least one model besides the base.")
    return members


def _member(config: _Config, name: str, own: dict[str, Any], shared: dict[str, Any]) -> Member:
    for key in own:
        if key not in PER_MODEL[config.method]:
            config.warn(f"parameter {key!r} of a model means nothing to {config.method}: ignored, as mergekit does.")
    weight = own.get("weight", shared.get("weight"))
    if weight is None:
        config.fail(f"{name}: has no weight, neither its own nor one in `parameters`.")
    density = 1.0
    if config.method != "linear":
        density = _number(config, own.get("density", shared.get("density", 1.0)), f"{name}: density")
    if config.method == "task_arithmetic" and density != 1.0:
        config.warn("density means nothing to task_arithmetic: ignored, as mergekit does.")
        density = 1.0
    if not 0 <= density <= 1:
        config.fail(f"{name}: density {density:g} is outside [0, 1], the share of each tensor that is kept.")
    if density == 0:
        config.warn(f"{name}: density 0 leaves nothing of it.")
    return Member(_resolve(config, name), _number(config, weight, f"{name}: weight"), density)


def _check_shared(config: _Config, shared: dict[str, Any]) -> None:
    known = (*SHARED[config.method], *PER_MODEL[config.method])
    for key in shared:
        if key not in known:
            config.warn(f"parameter {key!r} means nothing to {config.method}: ignored, as mergekit does.")
    if config.method == "linear":
        return
    if _bool(config, shared.get("rescale", False), "rescale") and config.method == "ties":
        raise NeedsMergekit("rescale")
    if _bool(config, shared.get("int8_mask", False), "int8_mask"):
        config.warn("int8_mask is ignored: it saves memory in mergekit and changes no number.")


def _for_mergekit(config: _Config, reason: str) -> Plan:
    base = config.data.get("base_model")
    names = _all_models(config.data)
    members = tuple(Member(_resolve(config, name), 1.0) for name in names if name != base)
    dtype = str(config.data.get("dtype") or AUTO).removeprefix("torch.")
    out = str(config.data.get("out_dtype") or dtype).removeprefix("torch.")
    return Plan(
        config.method, _resolve(config, base) if isinstance(base, str) else None, members, False, 1.0, dtype, out,
        "mergekit", config.text, tuple(config.warnings), reason, _folder(config.where),
    )  # fmt: skip


def _all_models(value: Any) -> list[str]:
    """Every `model:` of the config, in order, each once."""
    found: list[str] = []
    if isinstance(value, dict):
        if isinstance(value.get("model"), str):
            found.append(value["model"])
        for one in value.values():
            found += _all_models(one)
    elif isinstance(value, list):
        for one in value:
            found += _all_models(one)
    return list(dict.fromkeys(found))


def _reference(config: _Config, value: Any, where: str) -> str:
    if isinstance(value, dict):
        raise NeedsMergekit("a model given as a mapping")
    if not isinstance(value, str) or not value:
        config.fail(f"{where}: expected the path of a model folder, found {value!r}.")
    if "+" in value and not _resolve(config, value).exists():
        config.fail(f"{where}: {value} asks for a LoRA on top. Merge the adapter into its base first.")
    return value


def _mapping(config: _Config, value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        config.fail(f"{where}: expected a mapping, found {type(value).__name__}.")
    for key, one in value.items():
        if isinstance(one, list | dict):
            raise NeedsMergekit(f"parameter {key} with a gradient or filter")
    return value


def _number(config: _Config, value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        config.fail(f"{what}: expected a number, found {value!r}.")
    if not math.isfinite(number) or abs(number) > 3.4e38:
        config.fail(f"{what}: expected a finite number, found {value!r}.")
    return number


def _bool(config: _Config, value: Any, what: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    text = str(int(value)) if isinstance(value, float) and value in (0.0, 1.0) else str(value).lower()
    if text not in words:
        config.fail(f"{what}: expected true or false, found {value!r}.")
    return words[text]


def _fp32_sum(members: tuple[Member, ...]) -> float:
    import numpy as np

    total = np.float32(0)
    for one in members:
        total = total + np.float32(one.weight)
    return float(total)


def _folder(where: Path) -> Path:
    return where if where.is_dir() else where.parent


def _resolve(config: _Config, name: str) -> Path:
    """The config's folder first, then the working directory; absolute either way when it exists."""
    return resolve_model(name, _folder(config.where))


def resolve_model(name: str, folder: Path) -> Path:
    """A model path as the config means it; left as it is where no such folder exists."""
    path = Path(name).expanduser()
    for candidate in (folder / path, Path.cwd() / path):
        if os.path.exists(candidate):  # noqa: PTH110 - False, not an error, for links in a loop and names too long
            return candidate.absolute()
    return path
