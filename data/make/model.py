"""The banks' model: a small Qwen3, how it is made, saved in bf16 and read back.

Training keeps fp32 master weights; what is saved is bf16, as a post-training run's checkpoints are.
"""

import shutil
from pathlib import Path
from typing import Any


def new_model(vocabulary: int, seed: int) -> Any:
    """A freshly initialised `Qwen3ForCausalLM` of about 0.41M parameters, fp32."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=24,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        attention_dropout=0.0,
        use_cache=True,
    )
    return Qwen3ForCausalLM(config)


def save_bf16(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a rounded bf16 copy of `model`, with its tokenizer, as a Hugging Face folder; replaces `folder`."""
    import torch
    from transformers import Qwen3ForCausalLM

    shutil.rmtree(folder, ignore_errors=True)
    copy = Qwen3ForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    copy.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def load_fp32(folder: Path) -> Any:
    """Read a saved checkpoint into fp32 master weights (exact: every bf16 number is an fp32 number)."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
