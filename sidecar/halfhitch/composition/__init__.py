"""The program: settings in, engine and doors tied together, an exit code out.

`options.py` and `limits.py` make plain values of the settings, `rocketmq.py` ties that door,
`program.py` starts, runs and stops everything.
"""

from halfhitch.composition.limits import http_limits, rocketmq_limits
from halfhitch.composition.options import engine_options
from halfhitch.composition.program import App, run

__all__ = ["App", "engine_options", "http_limits", "rocketmq_limits", "run"]
