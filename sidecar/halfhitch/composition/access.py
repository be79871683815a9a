"""Who may do what, out of the settings; and the file of identities, read again when it changes.

A file that cannot be read any more changes nothing but a warning and a metric: those it had before
still count, for a slip of the pen must not shut all applications out, nor let anybody in. A file is
read once it has stayed the same from one look to the next, so that none is read half written.
"""

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final

from halfhitch.access import Access, Identity, Right
from halfhitch.config import Settings
from halfhitch.config.file_state import FileState, state_of
from halfhitch.config.identities import (
    known_access_keys,
    read_identities_file,
    shared_token_hashes,
)
from halfhitch.errors import ConfigurationError
from halfhitch.observability.lines import LineBudget

logger = logging.getLogger(__name__)

_LOOK_S: Final = 1.0


def access_of(settings: Settings) -> Access:
    """Raises ConfigurationError when the file of identities cannot be read."""
    path = settings.auth.identities_file
    lines = LineBudget()

    def on_forbidden(name: str, right: Right) -> None:
        more = lines.take()
        if more is not None:
            logger.warning(
                "identity %s was refused: it has not the right %s for what it asked%s",
                name,
                right.value,
                more,
                extra={"action": "forbidden"},
            )

    return Access(
        tokens=[token.reveal().encode() for token in settings.auth.tokens],
        identities=None
        if path is None
        else read_identities_file(path, known_access_keys(settings), shared_token_hashes(settings)),
        on_forbidden=on_forbidden,
    )


class IdentitiesWatch:
    """Looks at the file every second; `look` is one look."""

    def __init__(
        self,
        access: Access,
        path: Path,
        access_keys: Collection[str] | None = None,
        shared_hashes: Collection[bytes] = (),
    ) -> None:
        self._access = access
        self._path = path
        self._access_keys = access_keys
        self._shared_hashes = shared_hashes
        self._told: str | None = None  # of what is wrong with the file
        # Read once more at the first look: it may have changed since the start has read it.
        self._taken: FileState | None = None
        self._seen: FileState | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look, from now on."""
        self._task = asyncio.create_task(self._watch(), name="identities-watch")

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self.look()
            except Exception:
                logger.exception(
                    "looking at the identities failed; please report this",
                    extra={"action": "identities_bug"},
                )

    async def look(self) -> None:
        """Read the file if it has changed, and stands still; one that is broken, each time."""
        seen = await asyncio.to_thread(state_of, self._path)
        stands_still, self._seen = seen == self._seen, seen
        is_known = seen == self._taken and not self._access.is_file_broken
        if is_known or not stands_still:
            return
        self._taken = seen
        try:
            identities = await asyncio.to_thread(
                read_identities_file, self._path, self._access_keys, self._shared_hashes
            )
        except ConfigurationError as error:
            self._access.is_file_broken = True
            self._tell_broken(error.message)
        except BaseException:  # no kind of file may look as if it were taken
            self._access.is_file_broken = True
            raise
        else:
            self._told = None
            self._take(identities)

    def _tell_broken(self, what: str) -> None:
        """Once for each thing that is wrong: it is read again every second."""
        if what != self._told:
            self._told = what
            logger.warning(
                "the changed identities are not taken, those of before still count: %s",
                what,
                extra={"action": "identities_broken"},
            )

    def _take(self, identities: tuple[Identity, ...]) -> None:
        self._access.replace(identities)
        logger.info(
            "%d identities are known now: %s",
            len(identities),
            ", ".join(sorted(identity.name for identity in identities))[:500],
            extra={"action": "identities_changed"},
        )
