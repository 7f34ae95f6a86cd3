# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from . import agreement as agreement
from . import datasets as datasets
from . import gold as gold
from . import label_sets as label_sets
from . import simulate as simulate
