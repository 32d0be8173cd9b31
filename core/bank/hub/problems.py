"""What the Hub's refusals mean and what to do about them, in plain words."""

from collections.abc import Iterator
from contextlib import contextmanager

from core.bank.hub.address import HubAddress
from core.errors import BankError, DiskError, RunError

SIGN_IN = "sign in with `hf auth login` or set HF_TOKEN"


@contextmanager
def plain_words(address: HubAddress) -> Iterator[None]:
    """Turn whatever the Hub's client raises into one of our errors: InputError to correct, RunError to try again."""
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError:
        page = f"https://huggingface.co/{address.repository}"
        raise BankError(f"{address}: access is gated. Ask for it at {page}, then {SIGN_IN}.") from None
    except errors.RevisionNotFoundError:
        raise BankError(f"{address}: no such branch, tag or commit. See the repository's list of branches.") from None
    except errors.RepositoryNotFoundError:
        raise BankError(
            f"{address}: missing or private (the Hub answers alike). Check the name; if it is private, {SIGN_IN}."
        ) from None
    except errors.RemoteEntryNotFoundError:
        raise BankError(f"{address}: no such folder or file in the repository at this revision.") from None
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError):
        raise RunError(
            f"{address}: the Hub cannot be reached and the cache does not hold it. "
            f"Connect, or unset HF_HUB_OFFLINE, and run it again."
        ) from None
    except errors.HfHubHTTPError as problem:
        raise _by_status(address, problem.response.status_code if problem.response is not None else 0) from None
    except (errors.SafetensorsParsingError, errors.HFValidationError) as problem:
        raise BankError(f"{address}: {str(problem).splitlines()[0]}") from None
    except OSError as problem:
        if problem.errno == 28:
            raise DiskError(
                f"{address}: the disk is full. Free space; the same command fetches what is missing."
            ) from None
        raise RunError(f"{address}: {problem}. Run the same command again; files that are complete are kept.") from None
    except Exception as problem:
        if type(problem).__module__.partition(".")[0] not in ("httpx", "httpx2", "httpcore", "httpcore2"):
            raise
        raise RunError(
            f"{address}: the connection failed or timed out ({type(problem).__name__}). "
            f"Run the same command again; files that are complete are kept."
        ) from None


def _by_status(address: HubAddress, status: int) -> Exception:
    if status == 429:
        return RunError(f"{address}: the Hub limits the rate of requests (429). Wait some minutes, or {SIGN_IN}.")
    if status in (401, 403):
        return BankError(f"{address}: the Hub refuses access ({status}). To go on, {SIGN_IN}.")
    return RunError(f"{address}: the Hub answered with status {status}. Try again later.")
