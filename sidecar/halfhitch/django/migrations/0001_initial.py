"""The barrier's table."""

from typing import ClassVar

from django.db import migrations

from halfhitch.django.operations import CreateBarrierTable


class Migration(migrations.Migration):
    """It needs no other application's."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[CreateBarrierTable]] = [CreateBarrierTable()]
