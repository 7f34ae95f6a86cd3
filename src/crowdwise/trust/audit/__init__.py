"""Audits: a few labels checked by a person, and a certificate for the others.

`draw` says which items to check; `certify` says, from their true labels, which labels can be accepted at a stated
rate of errors, how many labels are right, and what more checks would show. Nothing is assumed of the votes or the model.
"""

from crowdwise.trust.audit.auditing import Audit, certify
from crowdwise.trust.audit.checks import Checks, CheckTable, read_checks
from crowdwise.trust.audit.drawing import Draw, draw

__all__ = ["Audit", "CheckTable", "Checks", "Draw", "certify", "draw", "read_checks"]
