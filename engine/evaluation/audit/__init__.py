"""CONFIDENTIAL. Audits: does a generator use more of the data than its card says? After arXiv:2211.11540.

Takes rows, the margins that a generator may use, a generator: one of ours, a function, a command.
Gives an `Audit`: two-sided t-tests between data sets that agree in every safe margin; generator cards of releases.
May import what `engine.evaluation` may, and its `data`, `report`; `engine.release.trials`.
"""

from engine.evaluation.audit.card import generator_card, write_card
from engine.evaluation.audit.claim import (
    AS_ROWS,
    Claim,
    chosen_domain,
    claim_of_release,
    claim_of_spec,
    safe_of,
)
from engine.evaluation.audit.domain import AuditColumn, Cells, Domain, domain_of
from engine.evaluation.audit.generators import CommandGenerator, FrameGenerator, Generator
from engine.evaluation.audit.ours import JointGenerator, RakedGenerator, StickyGenerator
from engine.evaluation.audit.page import HEADS, audit_json, audit_rows, write_audit
from engine.evaluation.audit.procedure import Settings, run_audit
from engine.evaluation.audit.result import Audit, DirectionTest
from engine.evaluation.audit.safe import SafeStatistics, safe_statistics

__all__ = [
    "AS_ROWS",
    "HEADS",
    "Audit",
    "AuditColumn",
    "Cells",
    "Claim",
    "CommandGenerator",
    "DirectionTest",
    "Domain",
    "FrameGenerator",
    "Generator",
    "JointGenerator",
    "RakedGenerator",
    "SafeStatistics",
    "Settings",
    "StickyGenerator",
    "audit_json",
    "audit_rows",
    "chosen_domain",
    "claim_of_release",
    "claim_of_spec",
    "domain_of",
    "generator_card",
    "run_audit",
    "safe_of",
    "safe_statistics",
    "write_audit",
    "write_card",
]
