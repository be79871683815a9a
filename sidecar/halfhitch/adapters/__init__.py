"""The ports made real: `kafka` over librdkafka, `memory` for tests, the system's clock.

All of it, and whatever is built on it, needs the extra `sidecar`; looked for here, so that who
imports an engine without it is told so.
"""

from halfhitch import extras

extras.require("Half Hitch's server", extras.SIDECAR)
