# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from . import against as against
from . import capacity as capacity
from . import cautious as cautious
from . import colluders as colluders
from . import copiers as copiers
from . import covariance as covariance
from . import dependence as dependence
from . import drift as drift
from . import eigen_scores as eigen_scores
from . import fusion as fusion
from . import groups as groups
from . import jaffe as jaffe
from . import members as members
from . import named as named
from . import pruning as pruning
from . import raykar_yu as raykar_yu
from . import spammers as spammers
from . import spem as spem
from . import table as table
from .checked import check as check
