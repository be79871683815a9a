"""The coordinator without doors: everything between the transaction service and Kafka.

`options.py` is what it is told, `wiring.py` ties its parts together, `life.py` starts, runs and
stops them.
"""

from halfhitch.engine.life import Engine
from halfhitch.engine.options import EngineOptions

__all__ = ["Engine", "EngineOptions"]
