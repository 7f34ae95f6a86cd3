# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from .converter import convert as convert
from .features import read_features as read_features
from .format_writers import DESTINATIONS as DESTINATIONS
from .gold import read_gold as read_gold
from .kept import read_kept as read_kept
from .kinds import read_groups as read_groups
from .kinds import read_known as read_known
from .reader import FORMATS as FORMATS
from .reader import detect as detect
from .reader import read as read
from .writer import replacing as replacing
from .writer import write_table as write_table
