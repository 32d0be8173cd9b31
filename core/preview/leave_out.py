"""What leaves a merge when one member leaves: the plans without each, and how their merges differ from the whole.

Takes a plan and a `Sample` of its models; gives a `Comparison` a member. Reads nothing.
"""

from dataclasses import replace

from core.errors import InputError
from core.merge.plan import Plan
from core.preview.compare import Comparison, compare
from core.preview.sample import Sample


def without(plan: Plan, at: int) -> Plan:
    """The plan without one member, the others' weights in the same proportions and with the same sum.

    With `normalize` they stay as they are, since only proportions count. Where all others weigh nothing they become
    equal. Raises InputError for the only member.
    """
    if len(plan.members) < 2:
        raise InputError("the only member of a merge cannot be left out.")
    rest = plan.members[:at] + plan.members[at + 1 :]
    whole, left = sum(one.weight for one in plan.members), sum(one.weight for one in rest)
    if all(one.weight == 0 for one in rest):
        rest = tuple(replace(one, weight=1 / len(rest)) for one in rest)
    elif not plan.normalize and left:
        rest = tuple(replace(one, weight=one.weight * whole / left) for one in rest)
    return replace(plan, members=rest)


def leave_one_out(sample: Sample, plan: Plan) -> list[Comparison]:
    """The merge without each member against the whole one, in the plan's order; empty for a single member.

    `gone` is then the share of elements that return to the base, `turned` of those whose change points the other way.
    """
    if len(plan.members) < 2:
        return []
    return compare(sample, plan, [without(plan, at) for at in range(len(plan.members))])
