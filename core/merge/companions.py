"""Everything beside the weights: config, tokenizer, model card, the plan and the provenance.

Takes the plan, the opened models and what was written; writes small files into the working folder. Reads
no weights.
"""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import core
from core.errors import RunError
from core.merge.checkpoint import CheckpointFile
from core.merge.forms import read_config
from core.merge.plan import Member, Plan
from core.merge.writer import WrittenFile, write_text

TIE_RULE = (
    "exactly k = int(density·n) are kept per tensor and member, at least 1; equal |δ| go to the lowest flat index"
)
WHOLE_TIE_RULE = (
    "of each member's whole vector, every |δ| that is not below the (n − k)-th smallest is kept, k = int(density·n)"
)
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.model", "added_tokens.json",
    "vocab.json", "merges.txt", "vocab.txt", "spiece.model", "tekken.json", "chat_template.jinja", "chat_template.json",
)  # fmt: skip
OTHER_FILES = (
    "generation_config.json", "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
)  # fmt: skip
PACKAGES = ("numpy", "numba", "pyarrow", "mergekit", "torch", "transformers", "safetensors")
CONFIG_FILE, PLAN_FILE, PROVENANCE_FILE, CARD_FILE = (
    "config.json",
    "mergekit_config.yml",
    "provenance.json",
    "README.md",
)


def recipe_fields(plan: Plan) -> dict[str, Any]:
    """The numbers that decide the result, without paths or spelling."""
    return {
        "method": plan.method,
        "dialect": plan.dialect,
        "weights": [one.weight for one in plan.members],
        "densities": [one.density for one in plan.members],
        "normalize": plan.normalize,
        "scale": plan.scale,
        "out_dtype": plan.out_dtype,
        **({"vocabulary": plan.vocabulary} if plan.vocabulary != "refuse" else {}),
    }


def shard_metadata(plan: Plan, inputs: Sequence[str] = ()) -> dict[str, str]:
    """safetensors metadata: the format transformers expects, the recipe and its hash, and the hashes of the models
    that went in (the base or reference first), zeros of the same length where they are not known yet."""
    text = json.dumps(recipe_fields(plan), sort_keys=True, separators=(",", ":"))
    models = len(plan.members) + (1 if plan.base else 0)
    return {
        "format": "pt",
        "mergescope_recipe": text,
        "mergescope_recipe_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "mergescope_inputs_sha256": " ".join(inputs or ["0" * 64] * models),
    }


def tokenizer_source(models: Sequence[CheckpointFile]) -> CheckpointFile | None:
    """The first model, base first, whose folder has a tokenizer."""
    for one in models:
        if (one.folder / "tokenizer.json").exists() or (one.folder / "tokenizer.model").exists():
            return one
    return None


def tokenizer_warnings(reference: CheckpointFile, members: Sequence[CheckpointFile]) -> list[str]:
    """Warn where a member's tokenizer.json is not the base's, or where the base has none."""
    source = tokenizer_source([reference, *members])
    if source is None:
        return ["no model has a tokenizer: the merged folder has none either."]
    found = [] if source is reference else [f"the base has no tokenizer: it is taken from {source.folder}."]
    mine = _tokenizer_hash(source.folder)
    for one in dict.fromkeys(members):
        other = _tokenizer_hash(one.folder)
        if other and other != mine:
            found.append(f"{one.folder}: its tokenizer.json differs from {source.folder}'s, which is kept.")
    return found


def _tokenizer_hash(folder: Path) -> str | None:
    """Hash of what a tokenizer.json means: how it last padded or cut a batch is left out."""
    path = folder / "tokenizer.json"
    try:
        content = path.read_bytes()
    except OSError:
        return None
    try:
        meaning = {key: one for key, one in json.loads(content).items() if key not in ("padding", "truncation")}
        content = json.dumps(meaning, sort_keys=True).encode()
    except (ValueError, AttributeError, RecursionError):
        pass
    return hashlib.sha256(content).hexdigest()


def copy_companions(
    work: Path, reference: CheckpointFile, members: Sequence[CheckpointFile], dtype: str
) -> list[WrittenFile]:
    """Write config.json with the merged dtype, and copy generation config, tokenizer and chat template.

    Gives the files of the folder itself.
    """
    written = []
    config = dict(reference.config or read_config(reference.folder))
    if config:
        text = json.dumps(_with_dtype(config, dtype), indent=2, ensure_ascii=False) + "\n"
        written.append(write_text(work / CONFIG_FILE, text))
    written += _copy(reference.folder, work, OTHER_FILES)
    source = tokenizer_source([reference, *members])
    if source is not None:
        written += _copy(source.folder, work, TOKENIZER_FILES)
        more = source.folder / "additional_chat_templates"
        if more.is_dir():
            (work / more.name).mkdir(exist_ok=True)
            _copy(more, work / more.name, sorted(path.name for path in more.glob("*.jinja")))
    return written


def _copy(source: Path, work: Path, names: Sequence[str]) -> list[WrittenFile]:
    written = []
    for name in names:
        path = source / name
        if path.is_file():
            try:
                content = path.read_bytes()
            except OSError as problem:
                raise RunError(f"{path}: cannot be copied ({problem.strerror}).") from None
            written.append(write_text(work / name, content))
    return written


def _with_dtype(config: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The config with its dtype set under each name in use: `dtype` since transformers 5, `torch_dtype` before."""
    changed = dict(config)
    keys = [key for key in ("dtype", "torch_dtype") if key in changed] or ["dtype", "torch_dtype"]
    for key in keys:
        changed[key] = dtype
    text = changed.get("text_config")
    if isinstance(text, dict):
        changed["text_config"] = text | {key: dtype for key in ("dtype", "torch_dtype") if key in text}
    return changed


def tie_rule(plan: Plan) -> str | None:
    """How equal |δ| are trimmed, in words; None where nothing is."""
    if plan.method != "ties":
        return None
    return TIE_RULE if plan.dialect == "mergekit" or plan.engine == "mergekit" else WHOLE_TIE_RULE


def provenance(
    plan: Plan,
    reference: Path | None,
    *,
    inputs: Mapping[Path, list[WrittenFile]],
    outputs: Sequence[WrittenFile],
    dtypes: Mapping[str, Any],
    warnings: Sequence[str],
    extra: Mapping[str, Any] | None,
    settings: Mapping[str, Any] | None = None,
    device: str = "cpu",
) -> str:
    """The provenance file: what went in, what came out, and by which rules, as JSON."""
    value = {
        "made_by": f"mergescope {core.__version__}",
        "engine": plan.engine,
        "recipe": recipe_fields(plan) if plan.engine == "streaming" else {"method": plan.method},
        "settings": dict(settings or {}),
        "tie_rule": tie_rule(plan),
        "device": device,
        "dtypes": dict(dtypes),
        "config_sha256": hashlib.sha256(plan.yaml_text.encode()).hexdigest(),
        "inputs": _models(plan, reference, inputs),
        "outputs": _listed(outputs),
        "versions": {"python": platform.python_version(), **_versions()},
        "warnings": list(warnings),
        "extra": dict(extra or {}),
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _models(plan: Plan, reference: Path | None, inputs: Mapping[Path, list[WrittenFile]]) -> list[dict[str, Any]]:
    """Each model that went in, the base or reference first."""
    roles: list[tuple[str, Path, Member | None]] = []
    if reference:
        roles.append(("base" if plan.base else "reference", reference, None))
    roles += [(f"member {number}", one.path, one) for number, one in enumerate(plan.members, start=1)]
    known = plan.engine == "streaming"
    return [
        {
            "role": role,
            "path": str(folder),
            "weight": one.weight if one and known else None,
            "density": one.density if one and known else None,
            "files": _listed(inputs.get(folder, [])),
        }
        for role, folder, one in roles
    ]


def _listed(files: Sequence[WrittenFile]) -> list[dict[str, Any]]:
    return [{"file": one.name, "bytes": one.nbytes, "sha256": one.sha256} for one in files]


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _dialect(plan: Plan) -> str:
    return "" if plan.dialect == "mergekit" else f" in the dialect `{plan.dialect}`"


def model_card(plan: Plan, name: str, totals: Mapping[str, Any], warnings: Sequence[str]) -> str:
    """The model card, Markdown with the Hub's front matter."""
    lines = [
        "---", "library_name: transformers", "tags:", "- merge", "- mergekit", "- mergescope", "---", f"# {name}", "",
        f"A merge of {len(plan.members)} checkpoints by `{plan.method}`{_dialect(plan)}, made by Mergescope "
        f"{core.__version__} ({plan.engine} engine).", "",
    ]  # fmt: skip
    if plan.base:
        lines += [f"Base: `{plan.base.name}`", ""]
    if plan.engine == "streaming":
        lines += ["| model | weight | density |", "|---|---|---|"]
        lines += [f"| `{one.path.name}` | {one.weight:.6g} | {one.density:g} |" for one in plan.members]
        lines += ["", f"normalize: {str(plan.normalize).lower()}, scale: {plan.scale:g}, arithmetic: float32", ""]
    if totals:
        share = 100 * totals["lost_fraction"]
        lines += [
            f"Of {totals['elements']:,} parameters {totals['changed']:,} differ from the base. Cast to bf16, "
            f"{share:.1f} % of these changes round away.", "",
        ]  # fmt: skip
    for warning in warnings:
        lines.append(f"- Warning: {warning}")
    lines += [
        "", "Beside the weights: `provenance.json` (hashes of every input and output), `merge_report.parquet` (figures",
        "of each tensor), and the plan, `mergekit_config.yml`:", "", "```yaml", plan.yaml_text.rstrip(), "```", "",
    ]  # fmt: skip
    return "\n".join(lines)
