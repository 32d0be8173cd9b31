"""What makes models unlike before their shapes do: settings of config.json, and how experts are named.

Takes opened models; gives lines for people. Configs are compared by meaning, since versions of transformers
write the same setting under different keys. Reads nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from core.merge.checkpoint import CheckpointFile

SAYS_NOTHING = (
    "_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "architectures", "attn_implementation",
    "auto_map", "dtype", "model_type", "quantization_config", "rope_parameters", "rope_scaling", "rope_theta",
    "text_config", "torch_dtype", "transformers_version", "use_cache",
)  # fmt: skip
"""Keys of config.json that change no number of the merged model, or that are compared in another way."""
DEFAULT_ROPE = {"rope_type": "default"}
PER_EXPERT = re.compile(r"\.experts\.\d+\.([^.]+)\.")
FUSED = re.compile(r"\.experts\.(?:routed_experts\.)?([a-z]\w*)(?:\.weight)?$")


def config_differences(reference: CheckpointFile, members: Sequence[CheckpointFile]) -> list[str]:
    """One line a member whose config.json means something else than the reference's, which the result keeps."""
    found = []
    kinds = {str(one.config.get("model_type")) for one in (reference, *members)}
    if len(kinds) > 1:
        found.append(f"the models are of different types: {', '.join(sorted(kinds))}.")
    mine = meaning(reference.config)
    for one in dict.fromkeys(members):
        other = meaning(one.config)
        unlike = [key for key in sorted(mine.keys() & other.keys()) if mine[key] != other[key]]
        if unlike:
            said = ", ".join(f"{key} {_short(other[key])} against {_short(mine[key])}" for key in unlike[:4])
            more = f" and {len(unlike) - 4} more" if len(unlike) > 4 else ""
            found.append(
                f"{one.folder}: its config.json differs from {reference.folder}'s, which is kept: {said}{more}."
            )
    return found


def meaning(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a config that say something about the model, older spellings of RoPE in today's."""
    text = config.get("text_config")
    whole = {**config, **text} if isinstance(text, dict) else dict(config)
    found = {key: value for key, value in whole.items() if key not in SAYS_NOTHING}
    rope: dict[str, Any] = dict(DEFAULT_ROPE)
    if whole.get("rope_theta") is not None:
        rope["rope_theta"] = whole["rope_theta"]
    for key in ("rope_scaling", "rope_parameters"):
        if isinstance(whole.get(key), dict):
            rope |= whole[key]
    if "type" in rope:
        rope["rope_type"] = rope.pop("type")
    return found | {f"RoPE {key.removeprefix('rope_')}": value for key, value in rope.items()}


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def expert_naming(model: CheckpointFile) -> str | None:
    """How a mixture of experts names its weights: `experts.0.gate_proj`, `experts.gate_up_proj`, or None."""
    for name in model.tensors:
        if one := PER_EXPERT.search(name):
            return f"experts.0.{one[1]}"
        if one := FUSED.search(name):
            return f"experts.{one[1]}"
    return None


def naming_problem(reference: CheckpointFile, member: CheckpointFile) -> str | None:
    """The one problem behind hundreds of missing tensors: experts one by one in one model, fused in another."""
    mine, other = expert_naming(reference), expert_naming(member)
    if mine is None or other is None or _one_by_one(mine) == _one_by_one(other):
        return None
    return (
        f"{member.folder}: names its experts `{other}`, {reference.folder} names them `{mine}` "
        f"({_described(other)} against {_described(mine)}). Load and save both with one version of transformers, "
        "then merge."
    )


def is_expert(name: str) -> bool:
    """True for a weight of an expert, however it is named."""
    return bool(PER_EXPERT.search(name) or FUSED.search(name))


def _one_by_one(naming: str) -> bool:
    return naming.startswith("experts.0.")


def _described(naming: str) -> str:
    return "one by one" if _one_by_one(naming) else "all in one tensor"
