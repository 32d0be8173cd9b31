"""The two trained banks: every number that shaped them.

Chosen by the spread of the checkpoints' own scores, before any merge of them was scored.
"""

from data.make.settings import BankSettings, GrpoSettings, Supervised

INIT_SEED = 1
PRETRAIN = Supervised(steps=2000, peak_rate=2e-3, sloppy_share=0.5, seed=1)

RL_ONLY = BankSettings(
    name="rl_only",
    title="RL only",
    description="A 0.4M-parameter Qwen3 trained with GRPO from its raw pretrained base: steps 200 to 300 of one run.",
    grpo=GrpoSettings(prompts=12, rate=2e-4, seed=11),
)

SFT_RL = BankSettings(
    name="sft_rl",
    title="Supervised, then RL",
    description="The same base, first fine-tuned on clean demonstrations and then trained with GRPO: "
    "steps 200 to 300 of one run. Its base is the raw pretrained model, as in the S3 recipe.",
    clean=Supervised(steps=200, peak_rate=5e-4, sloppy_share=0.0, seed=2),
    grpo=GrpoSettings(prompts=12, rate=2e-4, seed=12),
)

SETTINGS = {bank.name: bank for bank in (RL_ONLY, SFT_RL)}
