"""Eight families of short text tasks whose answers a program can check.

Each family gives a prompt, its right answer, and a *sloppy* answer: the same systematic mistake
every time (off by one, last letter dropped, wrong order). Knows nothing about models or files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from string import ascii_lowercase

DIFFICULTIES = 5
"""Difficulty runs from 0 (short) to 4 (long)."""


@dataclass(frozen=True)
class Item:
    """One task as text."""

    family: str
    prompt: str
    right: str
    sloppy: str


def _word(random: Random, length: int, letters: str = ascii_lowercase) -> str:
    return "".join(random.choice(letters) for _ in range(length))


def _add(random: Random, difficulty: int) -> Item:
    """Addition; sloppy: off by one."""
    digits = ((1, 1), (2, 1), (2, 2), (2, 2), (3, 2))[difficulty]
    a, b = (random.randrange(10 ** (d - 1), 10**d) for d in digits)
    return Item("add", f"Add {a} {b} =", str(a + b), str(a + b + 1))


def _largest(random: Random, difficulty: int) -> Item:
    """Largest of several numbers; sloppy: the last one named."""
    numbers = random.sample(range(10, 100) if difficulty == 0 else range(100, 1000), 3 + difficulty)
    if numbers[-1] == max(numbers):
        numbers[0], numbers[-1] = numbers[-1], numbers[0]
    return Item("largest", f"Largest {' '.join(map(str, numbers))} =", str(max(numbers)), str(numbers[-1]))


def _reverse(random: Random, difficulty: int) -> Item:
    """A word backwards; sloppy: its last letter dropped."""
    word = _word(random, 6 + 2 * difficulty)
    return Item("reverse", f"Reverse {word} =", word[::-1], word[::-1][:-1])


def _sort(random: Random, difficulty: int) -> Item:
    """Letters in order; sloppy: in descending order."""
    word = _word(random, 6 + 2 * difficulty)
    ordered = sorted(word)
    return Item("sort", f"Sort {word} =", "".join(ordered), "".join(ordered[::-1]))


def _count(random: Random, difficulty: int) -> Item:
    """How often a letter occurs; sloppy: one too many."""
    word = _word(random, 5 + 2 * difficulty, "abc")
    letter = random.choice("abc")
    return Item("count", f"Count {letter} {word} =", str(word.count(letter)), str(word.count(letter) + 1))


_TOOLS = {"book": ("to", "on"), "find": ("name", "age"), "play": ("song", "at"), "send": ("to", "sum")}


def _call(random: Random, difficulty: int) -> Item:
    """A request written as a tool call, its number added up; sloppy: the argument names left out."""
    tool = random.choice(sorted(_TOOLS))
    first, second = _TOOLS[tool]
    word, number, more = _word(random, 3 + difficulty), random.randrange(10, 90), random.randrange(1, 10)
    prompt = f"Call {tool} {first} {word} {second} {number} + {more} ="
    total = number + more
    return Item("call", prompt, f'{tool}({first}="{word}", {second}={total})', f'{tool}("{word}", {total})')


def _shift(random: Random, difficulty: int) -> Item:
    """Every letter moved on by some places; sloppy: the last letter left as it was."""
    word, places = _word(random, 4 + difficulty), random.randrange(1, 5)
    moved = "".join(ascii_lowercase[(ascii_lowercase.index(c) + places) % 26] for c in word)
    return Item("shift", f"Shift {places} {word} =", moved, moved[:-1] + word[-1])


def _runs(random: Random, difficulty: int) -> Item:
    """Run lengths; sloppy: a length of one left out."""
    lengths = [random.choice((1, 1, 2, 3)) for _ in range(3 + difficulty)]
    lengths[random.randrange(len(lengths))] = 1
    letters = _word(random, 1)
    while len(letters) < len(lengths):
        letters += random.choice([c for c in "abcdef" if c != letters[-1]])
    word = "".join(c * n for c, n in zip(letters, lengths, strict=True))
    runs = [(c, len(list(group))) for c, group in groupby(word)]
    right = "".join(f"{c}{n}" for c, n in runs)
    return Item("runs", f"Runs {word} =", right, "".join(c if n == 1 else f"{c}{n}" for c, n in runs))


FAMILIES: dict[str, Callable[[Random, int], Item]] = {
    "add": _add,
    "largest": _largest,
    "reverse": _reverse,
    "sort": _sort,
    "count": _count,
    "call": _call,
    "shift": _shift,
    "runs": _runs,
}
KEYWORDS = ("Add", "Largest", "Reverse", "Sort", "Count", "Call", "Shift", "Runs")
"""First word of each family's prompts; one token each."""

NUMERIC = frozenset({"add", "largest", "count"})
"""Families whose answers are numbers."""


def draw(random: Random, *, forbidden: frozenset[str] = frozenset(), families: Sequence[str] = tuple(FAMILIES)) -> Item:
    """Draw one item of a random family and difficulty whose prompt is not in `forbidden`."""
    while True:
        item = FAMILIES[random.choice(families)](random, random.randrange(DIFFICULTIES))
        if item.prompt not in forbidden:
            return item
