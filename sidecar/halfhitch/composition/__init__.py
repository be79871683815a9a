"""The program: settings in, engine and doors tied together, an exit code out.

`options.py` makes plain values of the settings, `rocketmq.py` ties that door, `program.py` starts,
runs and stops everything.
"""

from halfhitch.composition.options import engine_options, http_limits
from halfhitch.composition.program import App, run
from halfhitch.composition.rocketmq import rocketmq_limits

__all__ = ["App", "engine_options", "http_limits", "rocketmq_limits", "run"]
