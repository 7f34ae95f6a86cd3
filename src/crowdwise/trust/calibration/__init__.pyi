# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from . import calibrating as calibrating
from . import decisions as decisions
from .calibrating import Calibrated as Calibrated
from .calibrating import calibrate as calibrate
from .conformal import ConformalSets as ConformalSets
from .crossfit import cross_fitted as cross_fitted
from .curves import Reliability as Reliability
from .curves import reliability as reliability
from .dirichlet import Dirichlet as Dirichlet
from .effective_votes import EffectiveVotes as EffectiveVotes
from .isotonic import Isotonic as Isotonic
from .selection import Selection as Selection
from .selection import select as select
from .temperature import Temperature as Temperature
