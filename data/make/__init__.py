"""The parts of `data.make_banks`: tasks, tokenizer, supervised phase, GRPO, scores and cards."""
