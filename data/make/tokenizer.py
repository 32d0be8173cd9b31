"""The banks' tokenizer: one token a character, and one for each family's first word.

Gives a fast Hugging Face tokenizer that is saved as an ordinary tokenizer.json. Prompt and answer
encode apart or together to the same ids, so training and sampling see the same tokens.
"""

from string import ascii_lowercase, digits
from typing import Any

from data.make.families import KEYWORDS

PAD, EOS = "<pad>", "<eos>"


def make_tokenizer() -> Any:
    """Build the `PreTrainedTokenizerFast`: left padding, `<pad>` = 0, `<eos>` = 1, no token added by itself."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = [PAD, EOS, "<unk>", *KEYWORDS, *digits, *ascii_lowercase, *' =+(),"']
    inner = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(KEYWORDS) + r"|[\s\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        eos_token=EOS,
        unk_token="<unk>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=128,
    )
