"""Who may do what, out of the settings; identities and access keys, read again when their files
change.

A file that cannot be read any more changes nothing but a warning and a metric: those it had before
still count, for a slip of the pen must not shut all applications out, nor let anybody in. A file is
read once it has stayed the same from one look to the next, so that none is read half written.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
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
from halfhitch.config.load import access_key_pairs
from halfhitch.config.rocketmq import access_secrets
from halfhitch.errors import ConfigurationError
from halfhitch.observability.lines import LineBudget
from halfhitch.observability.logging import mask_also
from halfhitch.threads import Threads

logger = logging.getLogger(__name__)

_LOOK_S: Final = 1.0


def access_of(settings: Settings) -> Access:
    """Raises ConfigurationError when the file of identities cannot be read."""
    path = settings.auth.identities_file
    lines, crowd_lines = LineBudget(), LineBudget()

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

    def on_too_many(name: str) -> None:
        more = crowd_lines.take()
        if more is not None:
            logger.warning(
                "identity %s was refused a request: it asks more often than it may in a second "
                "(limits.requests_s_identity_max, or its requests_s_max)%s",
                name,
                more,
                extra={"action": "too_many_requests"},
            )

    return Access(
        tokens=[token.reveal().encode() for token in settings.auth.tokens],
        identities=None
        if path is None
        else read_identities_file(path, known_access_keys(settings), shared_token_hashes(settings)),
        requests_s_max=settings.limits.requests_s_identity_max,
        on_forbidden=on_forbidden,
        on_too_many=on_too_many,
    )


class _FileWatch(ABC):
    """Looks at a file every second; `look` is one look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        #: What it holds now is not taken: it is read again at each look.
        self.is_broken = False
        #: A disk that hangs keeps this one waiting, and nobody else.
        self._thread = Threads(f"look at {path}", 1, calls_max=1)
        self._told: str | None = None  # of what is wrong with the file
        # Read once more at the first look: it may have changed since the start has read it.
        self._taken: FileState | None = None
        self._seen: FileState | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look, from now on."""
        self._task = asyncio.create_task(self._watch(), name=f"watch {self._path.name}")

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
        self._thread.stop()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self.look()
            except Exception:
                logger.exception(
                    "looking at %s failed; please report this",
                    self._path,
                    extra={"action": "identities_bug"},
                )

    async def look(self) -> None:
        """Read the file if it has changed, and stands still; one that is broken, each time."""
        seen = await self._thread.call(state_of, self._path)
        stands_still, self._seen = seen == self._seen, seen
        is_known = seen == self._taken and not self.is_broken
        if is_known or not stands_still:
            return
        self._taken = seen
        try:
            take = await self._thread.call(self._read)
        except ConfigurationError as error:
            self._is_no_good()
            self._tell_broken(error.message)
        except BaseException:  # no kind of file may look as if it were taken
            self._is_no_good()
            raise
        else:
            self.is_broken, self._told = False, None
            take()

    @abstractmethod
    def _read(self) -> Callable[[], None]:
        """On a thread; what is to be done with it then. Raises ConfigurationError."""

    def _is_no_good(self) -> None:
        self.is_broken = True

    def _tell_broken(self, what: str) -> None:
        """Once for each thing that is wrong: it is read again every second."""
        if what != self._told:
            self._told = what
            logger.warning(
                "a changed file is not taken, what it held before still counts: %s",
                what,
                extra={"action": "identities_broken"},
            )


class IdentitiesWatch(_FileWatch):
    """Of the file of identities."""

    def __init__(
        self,
        access: Access,
        path: Path,
        access_keys: Collection[str] | None = None,
        shared_hashes: Collection[bytes] = (),
    ) -> None:
        super().__init__(path)
        self._access = access
        self._access_keys = access_keys
        self._shared_hashes = shared_hashes

    def keys_are(self, access_keys: Collection[str]) -> None:
        """Identities may name these now: the file is read again, for it may name others."""
        self._access_keys = access_keys
        self._taken = None

    def _read(self) -> Callable[[], None]:
        found = read_identities_file(self._path, self._access_keys, self._shared_hashes)
        return partial(self._take, found)

    def _is_no_good(self) -> None:
        super()._is_no_good()
        self._access.is_file_broken = True

    def _take(self, identities: tuple[Identity, ...]) -> None:
        self._access.replace(identities)
        logger.info(
            "%d identities are known now: %s",
            len(identities),
            ", ".join(sorted(identity.name for identity in identities))[:500],
            extra={"action": "identities_changed"},
        )


class AccessKeysWatch(_FileWatch):
    """Of rocketmq.access_key_file. `take` gets the keys, each with its secret."""

    def __init__(self, path: Path, take: Callable[[Mapping[str, str]], None]) -> None:
        super().__init__(path)
        self._take_keys = take
        self._secrets: Mapping[str, str] | None = None

    def _read(self) -> Callable[[], None]:
        return partial(self._take, access_secrets(access_key_pairs(self._path)))

    def _take(self, secrets: Mapping[str, str]) -> None:
        if secrets == self._secrets:
            return
        is_first, self._secrets = self._secrets is None, secrets
        mask_also([*secrets.values(), *(f"{key}:{value}" for key, value in secrets.items())])
        self._take_keys(secrets)
        if not is_first:
            logger.info(
                "%d access keys are known now: %s",
                len(secrets),
                ", ".join(sorted(secrets))[:500],
                extra={"action": "access_keys_changed"},
            )
