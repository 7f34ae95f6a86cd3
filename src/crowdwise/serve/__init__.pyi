# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from .client import Client as Client
from .settings import Settings as Settings
from .settings import read_settings as read_settings
