# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from . import independence as independence
