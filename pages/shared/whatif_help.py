"""What the `?` beside each heading of the What-if page says. Plain text; computes nothing."""

HELP = {
    "What would the merge do to the weights?": (
        "The merge is computed on parameters that were read once, at random where the models are large, with the same "
        "arithmetic as the merge itself. A parameter is one number of the model; a member's change is its checkpoint "
        "minus the base. Where only a part was read, every figure has a 95 % interval."
    ),
    "Who decides?": (
        "A member's weight is what the recipe gives it. Its share of the merged change is what it has in the result: "
        "for every parameter, its part of the change that was elected, added up. The two differ where members "
        "disagree, or where one changed a parameter that the others left alone."
    ),
    "Which knobs matter here?": (
        "A knob can only act where the members give it something to act on. τ and the weights have no say where all "
        "members that changed a parameter changed it alike, or where one alone did; the density has none while it "
        "drops nothing. A knob that reaches no parameter is inert here, whatever it does elsewhere."
    ),
    "One parameter, step by step": (
        "What the merge does to one number of the model, with the members' own values: each member's change, the "
        "trim, the vote on the sign, the mean of those that agree, and what is left in a bf16 file. Exact, and the "
        "same arithmetic as the merge's; a pencil will do to check it."
    ),
    "Tensor by tensor": (
        "Per cent of each tensor's parameters; of the changed ones for *Lost in bf16*. Brighter is more. The "
        "table has every tensor with its interval."
    ),
    "How alike the changes are": (
        "The cosine of two task vectors (checkpoint minus base): 1 where both moved in the same direction, 0 "
        "where their directions have nothing in common. Checkpoints of one run are usually alike; independent "
        "runs are near 0, and merge badly."
    ),
    "If one of them left": (
        "The merge without one member, the others' weights in the same proportions. *Moves by*: length of the "
        "difference over the length of the whole change. *Other direction*: parameters whose change gets the "
        "other sign. *Back to the base*: parameters that only this member changed, or won. *Another number in "
        "bf16*: what a bfloat16 file would show."
    ),
    "Against simpler recipes": (
        "The same sample, merged another way. In the published ablation five picks at steep weights solved 43 of "
        "57 tasks, the two strongest at equal weight 31: members of almost no weight mattered. Here is what would "
        "differ in the weights of this bank."
    ),
    "One step of each knob": (
        "How far the merge would move if one knob moved by one plausible step: λ to its next switch points, K by "
        "one, τ, density and scale halved or doubled."
    ),
    "The recipe map": (
        "Every cell is one set of picks; its edges are the exact λ at which the set changes. The colour is the "
        "mean score of the set; the outline is the recipe now. The order of picking is not shown, since it does "
        "not change the merge."
    ),
    "How certain the picks are": (
        "Bootstrap: the tasks (whole scenarios, where tasks come in groups) are drawn again with replacement and "
        "the recipe picks anew. Run once more: scores change by as much as repeated runs of one checkpoint were "
        "measured to differ."
    ),
    "What the picks solve together": (
        "A task counts as solved where a checkpoint is right in at least half of its samples. A merge need not "
        "solve what its members solve: this is what there is to keep."
    ),
}
"""Heading to its explanation."""
