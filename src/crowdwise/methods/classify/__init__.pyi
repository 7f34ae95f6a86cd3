# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from . import align as align
from . import rows as rows
