"""A campaign as a service: votes in, labels with calibrated confidence and the next question out, all day long.

`crowdwise serve campaign.toml` starts it; `Client` speaks to it. Needs ``crowdwise[serve]``, but for the client.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
