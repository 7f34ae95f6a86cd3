# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from .aggregator import Aggregator as Aggregator
from .costs import Costs as Costs
from .estimator import check_settings as check_settings
from .estimator import no_setting as no_setting
from .loading import load as load
from .outcome import Result as Result
from .storage import check_folder as check_folder
