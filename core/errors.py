"""The errors a user may see, one class a layer, each with one readable message.

A message says what was expected, what was found, where, and what to do. The shell prints it on
one line and exits with `exit_code`; the pages show it in an error box. Anything that is not a
MergescopeError is a defect of ours.
"""


class MergescopeError(Exception):
    """Base of every error that is meant for the user; `str(error)` is the whole message."""

    exit_code = 1


class InputError(MergescopeError):
    """Something the user gave is wrong; nothing was written."""

    exit_code = 2


class BankError(InputError):
    """A bank, its scores or its tasks cannot be read as they stand."""


class RecipeError(InputError):
    """A knob is out of range, or a recipe does not fit its bank."""


class CheckpointError(InputError):
    """A checkpoint folder cannot be read: unknown form, missing shard, bad header, NaN."""


class PlanError(InputError):
    """A mergekit config is malformed, or asks for something that cannot be merged."""


class TaskError(InputError):
    """A task, sample or protocol file is malformed."""


class RunError(MergescopeError):
    """Work that began could not finish: full disk, lost device, failed engine."""


class DiskError(RunError):
    """The disk is full; a merge keeps what it has done, and the same command goes on with it."""


class JobError(MergescopeError):
    """A job is unknown, or cannot do what was asked in its present state."""


class Cancelled(MergescopeError):
    """The user asked for the work to stop; what was half-written has been removed."""
