"""Work in processes of its own: the ledger of jobs, their workers and their kinds.

Importing it is light: what a job does is imported by its worker.
"""

from core.jobs.ledger import Ledger, default_home
from core.jobs.model import LIVE, STATES, Event, Job, State

__all__ = ["LIVE", "STATES", "Event", "Job", "Ledger", "State", "default_home"]
