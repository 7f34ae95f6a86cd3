# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from . import classify as classify
from . import rank as rank
