# Public names, for type checkers and for `lazy_loader.attach_stub`, which loads each on first use.

from . import batches as batches
from . import collecting as collecting
from . import doubts as doubts
from . import engine as engine
from . import inputs as inputs
from . import labels as labels
from . import places as places
from . import processes as processes
from . import training as training
from .encoding import encode as encode
from .local import Local as Local
from .ray_engine import Ray as Ray
from .store import Store as Store
from .training import Torchrun as Torchrun
from .training_ray import RayTrain as RayTrain
