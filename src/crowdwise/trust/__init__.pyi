# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from . import audit as audit
from . import calibration as calibration
from . import choice as choice
from . import compare as compare
from . import crowd as crowd
from . import fairness as fairness
from . import heldout as heldout
from . import judges as judges
from . import metrics as metrics
