"""What `INSTALLED_APPS` names."""

from django.apps import AppConfig


class HalfHitchConfig(AppConfig):
    """An application without models: its migration makes the barrier's table."""

    name = "halfhitch.django"
    label = "halfhitch"
    verbose_name = "Half Hitch"
