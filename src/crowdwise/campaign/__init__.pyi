# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from . import learner as learner
from . import names as names
from . import tables as tables
from .assign import Assignments as Assignments
from .assign import suggest as suggest
from .campaign import race as race
from .campaign import summary as summary
from .campaign import usual_budget as usual_budget
from .campaign import write_curves as write_curves
from .loop import ActiveLoop as ActiveLoop
from .oracle import Oracle as Oracle
from .oracle import RecordedCrowd as RecordedCrowd
from .oracle import SimulatedCrowd as SimulatedCrowd
from .policies import Policy as Policy
from .policies import policy_of as policy_of
from .pool import Pool as Pool
from .pool import extended as extended
from .state import State as State
from .stopping import Plan as Plan
from .stopping import chance_of as chance_of
from .stopping import expected_accuracy as expected_accuracy
from .stopping import plan as plan
from .stopping import reached as reached
