"""A tiny real Qwen3 model with a character tokenizer, saved as an ordinary Hugging Face folder."""

import shutil
from pathlib import Path
from string import ascii_lowercase, digits
from typing import Any

import pytest

LETTERS = ["<pad>", "<eos>", "<unk>", *ascii_lowercase, *digits, *" +-=?.,"]


def make_tokenizer() -> Any:
    """One token a character; `<pad>` = 0, `<eos>` = 1."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({one: at for at, one in enumerate(LETTERS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def make_model(seed: int = 0, spread: float = 0.35) -> Any:
    """Random weights, large enough in spread that answers depend on the prompt and some end early."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(LETTERS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        initializer_range=spread,
        eos_token_id=1,
        pad_token_id=0,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config).eval()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The saved model; tests that change it must copy it first."""
    folder = tmp_path_factory.mktemp("tiny") / "model"
    make_model().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def own_model(model_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(model_folder, tmp_path / "own"))
