"""A fit as one HTML page: `write_report` has everything, `write_page` is short; a picture; lines and data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
