

from crowdwise.engines.gradient import callbacks as callbacks
