"""`manage.py halfhitch checks` and `manage.py halfhitch purge`."""

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from halfhitch.django import process


class Command(BaseCommand):
    """What a project runs beside its web processes."""

    help = "Half Hitch: answer the checks of this project's group, or purge the barrier's table."

    def add_arguments(self, parser: CommandParser) -> None:
        """The two things it does."""
        parser.add_argument(
            "what",
            choices=("checks", "purge"),
            help="checks: answer them until the process is told to stop, as a process that is"
            " always there. purge: delete the rows that no check can need any more.",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """As it was asked."""
        if options["what"] == "purge":
            self.stdout.write(f"{process.barrier().purge()} rows deleted")
            return
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        here = process.running()
        here.producer.start_checks()
        self.stdout.write(f"answering the checks of {here.settings.group}")
        self.stdout.flush()
        stop.wait()
        process.close()
