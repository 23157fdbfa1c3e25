"""Trials: what a build would release of rows that lie in arrays, in this process, without a file. CONFIDENTIAL.

Takes codes of columns with public domains, each row an entity, and a key that is thrown away.
Gives the released tables, as a build of the same rows with the same key has them (a test holds that): the same
    measuring and the same fitting, in one process, without a source or a store. Nothing is charged to any ledger, so
    what comes out must not leave the process.
May import what `engine.release` may.
"""

from engine.release.trials.joint import joint_trial
from engine.release.trials.rows import TrialRows, TrialTable
from engine.release.trials.sticky import sticky_trial

__all__ = ["TrialRows", "TrialTable", "joint_trial", "sticky_trial"]
