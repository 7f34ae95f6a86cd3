"""A fit as one HTML page: `write_report` has everything, `write_page` is short; and the picture of annotators."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["plot"],
    submod_attrs={
        "answers": ["Intervals", "write_answers"],
        "full": ["write_report"],
        "page": ["write_page"],
        "picture": ["annotators_picture"],
    },
)
