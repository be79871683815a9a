"""The ports of the service in memory: `MemoryKafka` and its adapters, for tests without a broker.

They pass the same contract tests as the adapters to a real Kafka (tests/contract); what they
simplify is said at the top of each module. They are for tests: nothing in them is durable.
"""

from halfhitch.adapters.memory.clock import MemoryClock
from halfhitch.adapters.memory.doubt_index import MemoryDoubtIndex, MemoryRedis
from halfhitch.adapters.memory.faults import AppendFault, Faults, WriteFault
from halfhitch.adapters.memory.kafka import MemoryKafka, MemoryRecord
from halfhitch.adapters.memory.partition_log import MemoryPartitionReader, MemoryPartitionWriter
from halfhitch.adapters.memory.record_log import MemoryMarkers, MemoryRecordLog, MemoryTopicCatalog

__all__ = [
    "AppendFault",
    "Faults",
    "MemoryClock",
    "MemoryDoubtIndex",
    "MemoryKafka",
    "MemoryMarkers",
    "MemoryPartitionReader",
    "MemoryPartitionWriter",
    "MemoryRecord",
    "MemoryRecordLog",
    "MemoryRedis",
    "MemoryTopicCatalog",
    "WriteFault",
]
