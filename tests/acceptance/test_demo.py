"""The demo as a user runs it: real Kafka, real Spark, killed processes; the books must balance."""

import re
import subprocess
import sys

import pytest


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_the_demos_books_balance_although_shops_and_sidecar_are_killed() -> None:
    command = [sys.executable, "-m", "halfhitch_cli", "demo", "--orders", "600", "--deaths", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    books = dict(re.findall(r"│ ([^│]+?) +│ ([\d,]+) +│", done.stdout))
    figures = {name: int(figure.replace(",", "")) for name, figure in books.items()}
    assert (figures["lost"], figures["doubled"], figures["invented"]) == (0, 0, 0)
    # It was not an empty run, and it was disturbed.
    assert figures["orders in the database"] > 400
    assert figures["attempts without an order (rolled back, died)"] > 20
    assert figures["messages summed by Spark"] == figures["messages visible on points"] > 400
    assert (figures["shop processes killed"], figures["sidecar killed"]) == (3, 1)
    assert figures["undecided (the shop died before it could tell)"] > 0
