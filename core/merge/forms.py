"""Recognises checkpoint folders that cannot be merged, and says how to convert each.

Takes a folder and looks at file names (and at config.json for quantised weights) only. Knows nothing
about tensors; rank files of vLLM are weights, read in `ranks`.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import CheckpointError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
NUMBER = r"(?:0|[1-9]\d*)"
RANK = rf"(?:rank-{NUMBER}|pp-{NUMBER}-tp-{NUMBER})"
RANK_FILE = re.compile(rf"model-(?P<rank>{RANK})-part-(?P<part>{NUMBER})\.safetensors")
"""What vLLM calls the files of a sharded state."""


class Form(NamedTuple):
    """One way of saving weights that is not a Hugging Face folder of safetensors."""

    name: str
    found: Callable[[Path], bool]
    advice: str
    """What to tell the user; DIR stands for the folder."""


def _any(folder: Path, *patterns: str) -> bool:
    return any(next(folder.glob(pattern), None) is not None for pattern in patterns)


def _verl(folder: Path) -> bool:
    return _any(folder, "model_world_size_*_rank_*.pt", "actor/model_world_size_*_rank_*.pt")


FIRST = (
    Form(
        "a LoRA adapter",
        lambda folder: _any(folder, "adapter_config.json") and not _has_weights(folder),
        "Merge it into its base first: "
        '`PeftModel.from_pretrained(base, "DIR").merge_and_unload().save_pretrained(out)`.',
    ),
)
"""Looked for before weights are."""

LATER = (
    Form(
        "an FSDP checkpoint",
        lambda folder: _any(folder, "pytorch_model_fsdp_*", "__0_0.distcp"),
        "Convert it with `accelerate merge-weights DIR OUT`.",
    ),
    Form(
        "a verl checkpoint",
        _verl,
        "Convert it with `python -m verl.model_merger merge --backend fsdp --local_dir DIR --target_dir OUT`.",
    ),
    Form(
        "a verl Megatron checkpoint",
        lambda folder: _any(folder, "dist_ckpt", "actor/dist_ckpt"),
        "Convert it with `python -m verl.model_merger merge --backend megatron --local_dir DIR --target_dir OUT`.",
    ),
    Form(
        "a Megatron checkpoint",
        lambda folder: _any(
            folder, "*.distcp", "iter_*/*.distcp", "iter_*/mp_rank_*", "latest_checkpointed_iteration.txt"
        ),
        "Convert it with slime's `tools/convert_torch_dist_to_hf.py`, or train with `--save-hf`.",
    ),
    Form(
        "a DeepSpeed checkpoint",
        lambda folder: _any(folder, "latest", "global_step*/*_model_states.pt", "zero_pp_rank_*", "*_model_states.pt"),
        "Convert it with `python zero_to_fp32.py DIR OUT --safe_serialization`.",
    ),
    Form(
        "a folder of rank files",
        lambda folder: _any(folder, "model_*rank*.pt"),
        "Convert it with the tool that wrote it.",
    ),
    Form(
        "a GGUF file",
        lambda folder: _any(folder, "*.gguf"),
        "Quantised weights cannot be merged: use the original safetensors checkpoint.",
    ),
    Form(
        "a pickled PyTorch checkpoint (.bin, .pt, .pth)",
        lambda folder: _any(folder, "pytorch_model*.bin", "*.bin", "*.pt", "*.pth"),
        "Pickles can run code when opened: load it with `torch.load(file, weights_only=True)` and save it again with "
        "`safetensors.torch.save_model(model, file)` or `save_pretrained`.",
    ),
)
"""Looked for when there are no safetensors weights."""


def refuse_unreadable(folder: Path) -> None:
    """Raise CheckpointError with the conversion command where a folder's form cannot be merged."""
    if not folder.exists():
        raise CheckpointError(
            f"{folder}: no such folder. Expected a Hugging Face model folder on this machine; download one with "
            f"`hf download REPO --local-dir DIR`."
        )
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file. Expected the folder that holds {SINGLE_FILE} and config.json.")
    for form in FIRST if _has_weights(folder) else (*FIRST, *LATER):
        if form.found(folder):
            raise CheckpointError(f"{folder}: is {form.name}. {form.advice.replace('DIR', str(folder))}")
    if not _has_weights(folder):
        raise CheckpointError(
            f"{folder}: holds no weights that can be read. Expected {SINGLE_FILE}, or {INDEX_FILE} and its shards, or "
            "the rank files of a vLLM sharded state."
        )
    _refuse_quantised(folder)


def has_rank_files(folder: Path) -> bool:
    """Whether a folder holds a vLLM sharded state."""
    return any(RANK_FILE.fullmatch(path.name) for path in folder.glob("model-*-part-*.safetensors"))


def _has_weights(folder: Path) -> bool:
    return (folder / SINGLE_FILE).exists() or (folder / INDEX_FILE).exists() or has_rank_files(folder)


def read_config(folder: Path) -> dict[str, Any]:
    """A folder's config.json, or {} where there is none. Raises CheckpointError when it is not a JSON object."""
    path = folder / "config.json"
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise CheckpointError(f"{path}: is not readable JSON ({problem}).") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object, found {type(value).__name__}.")
    return value


def _refuse_quantised(folder: Path) -> None:
    quantised = read_config(folder).get("quantization_config")
    if quantised:
        kind = quantised.get("quant_method", "unknown") if isinstance(quantised, dict) else quantised
        raise CheckpointError(
            f"{folder}: holds quantised weights ({kind}). They cannot be merged: use the original checkpoint."
        )
