"""How vLLM splits each tensor over its ranks, turned round: which slices make one Hugging Face tensor.

Takes an opened sharded state; gives, for every Hugging Face tensor, the slabs of rank files that it is joined
from, and for everything that several ranks hold, the copies that must agree. Reads headers only.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from core.errors import CheckpointError
from core.merge.checkpoint import EMBEDDING, HEAD, CheckpointFile
from core.merge.header import ITEM_SIZES, TensorInfo
from core.merge.ranks import RankLayout, split_key
from core.merge.slabs import Joined, Joining, Replica, Slab

VOCABULARY_MULTIPLE = 64
"""vLLM pads the vocabulary to a multiple of this many rows."""
MOE_WARNING = (
    "some vLLM kernels reorder the weights of experts before they are saved, and nothing on disk says so: compare "
    "the outputs of the converted model with those of the sharded state before you rely on it."
)
CHECKED_TYPES = ("llama", "mistral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
FUSED_TYPES = ("dbrx", "glm", "glm4", "gpt_oss", "llama4", "llama4_text", "phi3", "phi4flash", "phi4mm", "phimoe")
"""Model types that Hugging Face itself keeps fused, or splits in another way."""


LAYER = r"(?P<layer>model\.layers\.\d+\.)"
SHARED = r"(?P<shared>(?:experts\.(?:\w+\.)?)?_?shared_experts?)"
MLP = rf"mlp\.(?:{SHARED}\.)?"
ROUTER = r"mlp\.(?:experts\.(?:\w+\.)?)?"
"""Modules that an expert layer holds too are saved under the first of their names in the alphabet."""


class _Joiner:
    """Finds the rule of each tensor by its name; `add` takes one tensor of all ranks of a stage."""

    def __init__(self, model: CheckpointFile, ranks: RankLayout) -> None:
        text = model.config.get("text_config")
        self.sizes = {**model.config, **text} if isinstance(text, dict) else dict(model.config)
        self._model, self._tp = model, ranks.tensor
        self._joined: set[str] = set()
        self.found = Joining()
        self.vocabulary: dict[str, list[list[Slab]]] = {EMBEDDING: [], HEAD: []}
        """The rows of the embedding and of lm_head, rank by rank, of each stage that holds them."""
        rules: tuple[tuple[str, Callable[[re.Match[str], list[TensorInfo]], None]], ...] = (
            (rf"{LAYER}self_attn\.qkv_proj\.(?P<kind>weight|bias)", self._qkv),
            (rf"{LAYER}{MLP}gate_up_proj\.(?P<kind>weight|bias)", self._gate_up),
            (rf"{LAYER}(?P<module>self_attn\.o_proj|{MLP}down_proj)\.weight", self._columns),
            (rf"{LAYER}mlp\.experts\.(?:routed_experts\.)?w13_weight", self._experts_gate_up),
            (rf"{LAYER}mlp\.experts\.(?:routed_experts\.)?w2_weight", self._experts_down),
            (r"model\.embed_tokens\.weight|lm_head\.weight", self._vocabulary),
            (rf"{LAYER}(?P<module>self_attn\.o_proj|{MLP}down_proj)\.bias", self._bias),
            (rf"{LAYER}{ROUTER}_?gate\.weight", self._router),
            (rf"{LAYER}mlp\.(?:\w+\.)*e_score_correction_bias", self._correction),
            (rf"{LAYER}mlp\.(?:shared_expert_gate|{SHARED}\.expert_gate)\.weight", self._shared_gate),
            (rf"{LAYER}self_attn\.(?P<head>[qk]_norm)\.weight", self._head_norm),
            (r"model\.(?:layers\.\d+\.)?(?:mlp\.)?\w*norm\.(?:weight|bias)", self._replicated),
            (rf"{LAYER}self_attn\.attn\._?(?:q|k|v|prob)_scale", self._left_out),
        )
        self._rules = tuple((re.compile(pattern), rule) for pattern, rule in rules)

    def add(self, held: list[TensorInfo]) -> None:
        """Raises CheckpointError where it is not known how the tensor was split, or its shape says otherwise."""
        first = held[0]
        for one in held[1:]:
            if (one.shape, one.dtype) != (first.shape, first.dtype):
                self._fail(first, f"is {first.dtype} {list(first.shape)}; {one.name} is {one.dtype} {list(one.shape)}")
        stored = split_key(first.name)[1]
        for pattern, rule in self._rules:
            if match := pattern.fullmatch(stored):
                rule(match, held)
                return
        self._fail(first, "has a name that says nothing about how it is split over the ranks")

    def _fail(self, info: TensorInfo, what: str) -> NoReturn:
        raise CheckpointError(
            f"{self._model.folder}: tensor {info.name} {what}. It cannot be converted to a Hugging Face folder; merged "
            "rank by rank it can be."
        )

    def size(self, name: str, info: TensorInfo) -> int:
        """A size from config.json; raises CheckpointError where it is not there."""
        value = self.sizes.get(name)
        if type(value) is not int or value < 1:
            raise CheckpointError(
                f"{self._model.folder / 'config.json'}: expected a positive number `{name}`, found {value!r}. "
                f"Without it {info.name} cannot be taken apart: copy config.json from the model it was made from."
            )
        return value

    def _known(self, name: str) -> int | None:
        """A size from config.json, where it gives one number."""
        value = self.sizes.get(name)
        return value if type(value) is int and value > 0 else None

    def _heads(self, info: TensorInfo) -> tuple[int, int, int]:
        """Query heads, key-value heads, and the width of a head."""
        heads = self.size("num_attention_heads", info)
        kv_heads = self._known("num_key_value_heads") or heads
        return heads, kv_heads, self._known("head_dim") or self.size("hidden_size", info) // heads

    def _expect(self, info: TensorInfo, what: str, found: int, expected: int | None) -> None:
        if expected is not None and found != expected:
            self._fail(info, f"has {found:,} {what} where config.json asks for {expected:,}")

    def _matrix(self, info: TensorInfo, dimensions: int) -> tuple[int, ...]:
        if len(info.shape) != dimensions:
            self._fail(info, f"has shape {list(info.shape)}; expected {dimensions} dimensions")
        return info.shape

    def _rows_and_width(self, match: re.Match[str], info: TensorInfo) -> tuple[int, int]:
        """Of a weight (rows, hidden size), or of a bias (rows, 1)."""
        if match["kind"] == "bias":
            return self._matrix(info, 1)[0], 1
        rows, width = self._matrix(info, 2)
        self._expect(info, "columns", width, self._known("hidden_size"))
        return rows, width

    def _join(self, name: str, slabs: Sequence[Slab], shape: tuple[int, ...], *, across: bool = False) -> None:
        info = slabs[0].info
        if name in self._joined:
            self._fail(info, f"is one more {name}")
        self._joined.add(name)
        inputs = tuple(one.info for one in slabs)
        self.found.tensors.append(
            Joined(name, shape, inputs, info.dtype, copied=True, slabs=tuple(slabs), across=across)
        )

    def _stack(self, name: str, slabs: Sequence[Slab], *, flat: bool = False) -> None:
        """Join slabs one below the other; `flat` for a bias."""
        rows = sum(one.rows for one in slabs)
        self._join(name, slabs, (rows,) if flat else (rows, slabs[0].width))

    def _abreast(self, name: str, slabs: Sequence[Slab]) -> None:
        """Join slabs side by side."""
        self._join(name, slabs, (slabs[0].rows, sum(one.width for one in slabs)), across=True)

    def _qkv(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        info, tp = held[0], self._tp
        rows, width = self._rows_and_width(match, info)
        heads, kv_heads, size = self._heads(info)
        if heads % tp or (kv_heads % tp and tp % kv_heads):
            self._fail(info, f"cannot be {heads} heads and {kv_heads} key-value heads over {tp} ranks")
        q, kv, repeats = heads // tp * size, max(1, kv_heads // tp) * size, max(1, tp // kv_heads)
        self._expect(info, f"rows on each of {tp} ranks", rows, q + 2 * kv)
        parts = (("q", 0, q, 1), ("k", q, kv, repeats), ("v", q + kv, kv, repeats))
        for letter, start, count, copies in parts:
            name = f"{match['layer']}self_attn.{letter}_proj.{match['kind']}"
            slabs = [Slab(one, start * width, count, width) for one in held]
            self._stack(name, slabs[::copies], flat=match["kind"] == "bias")
            if copies > 1:
                groups = (slabs[first : first + copies] for first in range(0, tp, copies))
                self.found.replicas += [Replica(name, tuple(group)) for group in groups]

    def _module(self, match: re.Match[str]) -> tuple[str, int | None]:
        """A feed-forward block as Hugging Face names it, and its size where config.json gives one."""
        if not match["shared"]:
            return "mlp", self._known("intermediate_size")
        if "shared_expert_intermediate_size" in self.sizes:
            return "mlp.shared_expert", self._known("shared_expert_intermediate_size")
        each, count = self._known("moe_intermediate_size"), self._known("n_shared_experts")
        return "mlp.shared_experts", each * count if each and count else None

    def _gate_up(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        rows, width = self._rows_and_width(match, held[0])
        module, expected = self._module(match)
        self._expect(held[0], "rows over all ranks", rows * self._tp, 2 * expected if expected else None)
        self._refuse_odd(held[0], rows)
        for at, name in enumerate(("gate_proj", "up_proj")):
            slabs = [Slab(one, at * (rows // 2) * width, rows // 2, width) for one in held]
            self._stack(f"{match['layer']}{module}.{name}.{match['kind']}", slabs, flat=match["kind"] == "bias")

    def _columns(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        info = held[0]
        rows, width = self._matrix(info, 2)
        self._expect(info, "rows", rows, self._known("hidden_size"))
        if match["module"] == "self_attn.o_proj":
            heads, _, size = self._heads(info)
            name, expected = "self_attn.o_proj", heads * size
        else:
            module, found = self._module(match)
            name, expected = f"{module}.down_proj", found or width * self._tp
        self._expect(info, "columns over all ranks", width * self._tp, expected)
        self._abreast(f"{match['layer']}{name}.weight", [Slab(one, 0, rows, width) for one in held])

    def _refuse_odd(self, info: TensorInfo, rows: int) -> None:
        if rows % 2:
            self._fail(info, f"has {rows:,} rows, which cannot be a gate and an up projection of one size")

    def _expert_sizes(self, info: TensorInfo) -> tuple[int, int, int]:
        """Experts and the two sizes of each one's slice, checked."""
        count, rows, width = self._matrix(info, 3)
        names = ("num_experts", "n_routed_experts", "num_local_experts")
        expected = next((self.size(name, info) for name in names if name in self.sizes), None)
        self._expect(info, "experts", count, expected)
        if MOE_WARNING not in self.found.warnings:
            self.found.warnings.append(MOE_WARNING)
        return count, rows, width

    def _experts_gate_up(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        count, rows, width = self._expert_sizes(held[0])
        self._expect(held[0], "columns", width, self._known("hidden_size"))
        size = self._known("moe_intermediate_size")
        self._expect(held[0], "rows an expert over all ranks", rows * self._tp, 2 * size if size else None)
        self._refuse_odd(held[0], rows)
        for number in range(count):
            for at, name in enumerate(("gate_proj", "up_proj")):
                start = (number * rows + at * (rows // 2)) * width
                slabs = [Slab(one, start, rows // 2, width) for one in held]
                self._stack(f"{match['layer']}mlp.experts.{number}.{name}.weight", slabs)

    def _experts_down(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        count, rows, width = self._expert_sizes(held[0])
        self._expect(held[0], "rows", rows, self._known("hidden_size"))
        self._expect(held[0], "columns over all ranks", width * self._tp, self._known("moe_intermediate_size"))
        for number in range(count):
            slabs = [Slab(one, number * rows * width, rows, width) for one in held]
            self._abreast(f"{match['layer']}mlp.experts.{number}.down_proj.weight", slabs)

    def _vocabulary(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        info, size = held[0], self.size("vocab_size", held[0])
        rows, width = self._matrix(info, 2)
        self._expect(info, "columns", width, self._known("hidden_size"))
        whole, step = rows * self._tp, VOCABULARY_MULTIPLE
        if whole not in {size, *(-(-size // one) * one for one in (step, step * self._tp))}:
            self._fail(info, f"has {whole:,} rows over all ranks, not the {size:,} of config.json padded to {step}")
        slabs = [Slab(one, 0, max(0, min(rows, size - at * rows)), width) for at, one in enumerate(held)]
        self.vocabulary[HEAD if match[0] == HEAD else EMBEDDING].append([one for one in slabs if one.rows])

    def _replicate(self, name: str, held: list[TensorInfo]) -> None:
        slabs = [Slab(one, 0, one.elements, 1) for one in held]
        self._join(name, slabs[:1], held[0].shape)
        self.found.replicas.append(Replica(name, tuple(slabs)))

    def _bias(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        module = match["module"] if match["module"].startswith("self_attn") else f"{self._module(match)[0]}.down_proj"
        self._replicate(f"{match['layer']}{module}.bias", held)

    def _router(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        self._replicate(f"{match['layer']}mlp.gate.weight", held)

    def _correction(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        self._replicate(f"{match['layer']}mlp.gate.e_score_correction_bias", held)

    def _shared_gate(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        self._replicate(f"{match['layer']}mlp.shared_expert_gate.weight", held)

    def _head_norm(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        """One of every head's width, or of all heads together; a slice of the latter would not be a copy."""
        heads, kv_heads, size = self._heads(held[0])
        whole = (heads if match["head"] == "q_norm" else kv_heads) * size
        if held[0].shape not in ((size,), (whole,)):
            self._fail(held[0], f"has shape {list(held[0].shape)}; expected [{size}] or [{whole}], whole on every rank")
        self._replicated(match, held)

    def _replicated(self, match: re.Match[str], held: list[TensorInfo]) -> None:
        self._replicate(match[0], held)

    def _left_out(self, _: re.Match[str], held: list[TensorInfo]) -> None:
        self.found.left_out += held

    def finish(self) -> None:
        """Write the embedding once and lm_head where it is not tied; every further copy must agree."""
        embeddings, heads = self.vocabulary[EMBEDDING], self.vocabulary[HEAD]
        name, tied = f"model.{EMBEDDING}", self._model.tied
        if tied and not embeddings:
            embeddings, heads = heads, []
        for written, copies in ((name, embeddings + (heads if tied else [])), (HEAD, [] if tied else heads)):
            if copies:
                self._stack(written, copies[0])
            for other in copies[1:]:
                which = HEAD if any(other is one for one in heads) else written
                if [_kind(one) for one in other] != [_kind(one) for one in copies[0]]:
                    self._fail(other[0].info, f"is not split as {copies[0][0].info.name} is, though they are tied")
                self.found.replicas += [Replica(which, pair) for pair in zip(copies[0], other, strict=True)]
        self._refuse_incomplete()

    def _refuse_incomplete(self) -> None:
        layers = range(min(self._known("num_hidden_layers") or 0, 1 + len(self._joined)))
        attention = [f"model.layers.{layer}.self_attn.{name}_proj.weight" for layer in layers for name in "qo"]
        causal = "ForCausalLM" in str(self.sizes.get("architectures"))
        wanted = [f"model.{EMBEDDING}", *attention, *([HEAD] if causal and not self._model.tied else [])]
        feeding = {name.split(".mlp.")[0] for name in self._joined if ".mlp." in name and "down_proj" in name}
        missing = [name for name in wanted if name not in self._joined]
        missing += [f"{one}.mlp" for one in (f"model.layers.{layer}" for layer in layers) if one not in feeding]
        if missing:
            raise CheckpointError(
                f"{self._model.folder}: no rank holds {missing[0]}, though config.json asks for it ({len(missing):,} "
                "such tensors are missing). Copy or download the rank files again."
            )


def _kind(slab: Slab) -> tuple[str, int, int]:
    return slab.info.dtype, slab.rows, slab.width


def joining_of(model: CheckpointFile) -> Joining:
    """Which slabs make each Hugging Face tensor of a sharded state, in the order they are written.

    Raises CheckpointError for a folder without ranks, for a tensor whose name or shape does not say how it was
    split, and for a model type that Hugging Face keeps in another way.
    """
    joiner = _joiner(model)
    kind = str(joiner.sizes.get("model_type"))
    if kind in FUSED_TYPES:
        raise CheckpointError(
            f"{model.folder}: is of model_type {kind}, whose projections Hugging Face names in another way than this "
            "conversion does. Use the Hugging Face folder that it was sharded from."
        )
    for held in _by_name(model):
        joiner.add(held)
    joiner.finish()
    found = joiner.found
    found.tensors.sort(key=lambda one: (-ITEM_SIZES[one.out_dtype], one.name))
    if kind not in CHECKED_TYPES:
        found.warnings.append(
            f"model_type {kind} is none of those whose layout was checked ({', '.join(CHECKED_TYPES)}): compare the "
            "outputs of the converted model with those of the sharded state."
        )
    if found.left_out:
        found.warnings.append(
            f"{len(found.left_out)} scales of vLLM's attention cache are left out ({found.left_out[0].name})."
        )
    return found


def replicas_of(model: CheckpointFile) -> list[Replica]:
    """What the ranks of a sharded state hold alike; tensors that cannot be told apart are passed over.

    Raises CheckpointError for a folder without ranks.
    """
    joiner = _joiner(model)
    for held in _by_name(model):
        with contextlib.suppress(CheckpointError):
            joiner.add(held)
    with contextlib.suppress(CheckpointError):
        joiner.finish()
    return joiner.found.replicas


def _joiner(model: CheckpointFile) -> _Joiner:
    if model.ranks is None:
        raise CheckpointError(
            f"{model.folder}: is a Hugging Face folder already. Expected a vLLM sharded state: files such as "
            "model-rank-0-part-0.safetensors."
        )
    return _Joiner(model, model.ranks)


def _by_name(model: CheckpointFile) -> Iterator[list[TensorInfo]]:
    """Each tensor of each stage, as every rank of the stage holds it."""
    for stage in model.ranks.stages if model.ranks else ():
        for name in model.tensors:
            rank, stored = split_key(name)
            if rank == stage[0]:
                yield [model.tensors[f"{one}/{stored}"] for one in stage]
