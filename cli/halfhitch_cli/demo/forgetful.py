"""A producer group that prepares some messages and never can say what became of them.

It is there and it answers, always with "cannot say yet": as an application does that has lost the
table it would have to look into. So its messages are checked as often as allowed and then parked.

    python -m halfhitch_cli.demo.forgetful --address unix:PATH --count 3 --stop-file FILE
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Final

from halfhitch import LocalTransactionState, Message, TransactionProducer
from halfhitch.client import Check
from halfhitch_cli.demo.shop import ORDERS

GROUP: Final = "forgetful"

_DEADLINE_S: Final = 90.0
_LOOK_EVERY_S: Final = 0.1


def transaction_ids(count: int) -> list[str]:
    """What it prepares and forgets."""
    return [f"forgotten-{number}" for number in range(1, count + 1)]


def _cannot_say(_: Check) -> LocalTransactionState:
    return LocalTransactionState.UNKNOWN


def main() -> int:
    """Prepare, stay to be asked, and go when the stop file is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--stop-file", type=Path, required=True)
    asked = parser.parse_args()
    with TransactionProducer(
        GROUP, asked.address, deadline_s=_DEADLINE_S, check=_cannot_say
    ) as producer:
        for transaction_id in transaction_ids(asked.count):
            content = json.dumps({"order_id": transaction_id, "customer": "nobody", "points": 1})
            producer.prepare([Message(ORDERS, content, "nobody")], transaction_id)
        while not asked.stop_file.exists():
            time.sleep(_LOOK_EVERY_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
