"""halfhitch produce: one transaction from the shell, committed, rolled back or left undecided.

Invariants: the message is prepared first and ended then, as an application does it; an end that
fails leaves a line that says how to repeat it; this process answers no checks.
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfhitch.config import Purpose, Settings
from halfhitch.errors import RequestError, Unauthorized
from halfhitch_cli import completing
from halfhitch_cli.app import OK
from halfhitch_cli.explain import name_of
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import Output, OutputForm, emit, printable, say

if TYPE_CHECKING:
    from halfhitch.client import TransactionProducer
    from halfhitch.client.tls import ClientTls

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_VALUE_BYTES_MAX = 64 * 1_048_576

Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="URL",
        show_default=False,
        help="The data door: http://host:port, https://host:port or unix:/path; also "
        "HALFHITCH_ADDRESS. [default: http://127.0.0.1:8340]",
    ),
]

TopicName = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        show_default=False,
        help="Its topic.",
        autocompletion=completing.topics,
    ),
]
Value = Annotated[
    str | None,
    typer.Argument(
        metavar="[VALUE]", show_default=False, help="The value; without it, all of stdin."
    ),
]


def produce(
    given: Given,
    topic: TopicName,
    value: Value = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="TEXT", help="Its key.", show_default=False)
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; repeatable."),
    ] = None,
    group: Annotated[
        str, typer.Option("--group", metavar="TEXT", help="The producer group.")
    ] = "shell",
    with_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="TEXT",
            help="The transaction id. [default: made up]",
            show_default=False,
        ),
    ] = None,
    hold: Annotated[
        bool, typer.Option("--hold", help="Leave it undecided: stored, invisible.")
    ] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Roll it back: it is never seen.")
    ] = False,
    address: Address = None,
    output: Output = OutputForm.TABLE,
) -> int:
    """Prepare a message and commit it: one transaction, as an application makes it.

    With --hold nobody ends it: `halfhitch tx list` shows it, `halfhitch tail --uncommitted` its
    message, and `halfhitch tx commit` makes it visible.

    Example: halfhitch produce orders '{"order": 4711}' --key customer-7
    """
    if hold and rollback:
        raise typer.BadParameter("--hold leaves it undecided and --rollback ends it: give one.")
    from halfhitch.client import Message

    headers = [_pair(text) for text in header or []]
    content = _stdin() if value is None else value.encode(errors="surrogateescape")
    message = Message(topic, content, key, headers or None)
    with _producer(group, address, given.load(Purpose.CLIENT)) as producer:
        try:
            prepared = producer.prepare([message], with_id)
        except Unauthorized as error:
            raise RequestError(
                f"{error.message} Here: HALFHITCH_AUTH_TOKENS or --auth-token-file."
            ) from None
        told: dict[str, Any] = {
            "transaction_id": prepared.transaction_id,
            "producer_group": group,
            "topic": topic,
            "handle": prepared.handle,
            "state": "pending",
        }
        if not hold:
            _end(producer, told, is_commit=not rollback)
        elif with_id is not None:  # somebody may have prepared and ended it before
            told["state"] = producer.view(prepared.handle).state
    _tell(output, told, is_held=hold)
    return OK


def _end(producer: "TransactionProducer", told: dict[str, Any], *, is_commit: bool) -> None:
    try:
        if is_commit:
            producer.commit(told["handle"], wait_visible=True)
        else:
            producer.rollback(told["handle"])
    except Exception:
        say(_how_to_end(told))
        raise
    told["state"] = "committed" if is_commit else "rolled_back"


def _tell(output: OutputForm, told: dict[str, Any], *, is_held: bool) -> None:
    if not output.is_for_people:
        emit(output, told, [])
        return
    name = f"transaction {told['transaction_id']} of group {told['producer_group']}"
    line = {
        "pending": f"Stored, invisible: {name}, 1 message for {told['topic']}.",
        "rolled_back": f"Rolled back: {name}. Nobody sees its message.",
        "committed": f"Committed, visible on {told['topic']}: {name}.",
    }[told["state"]]
    if is_held and told["state"] != "pending":
        line = f"It has ended before, and nothing is stored again. {line}"
    sys.stdout.write(printable(line) + "\n")
    if told["state"] == "pending":
        sys.stdout.flush()
        say(_how_to_end(told))


def _how_to_end(told: dict[str, Any]) -> str:
    name = name_of(told)
    return (
        f"To make it visible:\n  halfhitch tx commit --reason '...' {name}\n"
        f"To drop it:\n  halfhitch tx rollback --reason '...' {name}"
    )


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise typer.BadParameter(f"--header takes NAME=VALUE, such as trace=7; not {text!r}")
    return name, value


def _stdin() -> bytes:
    if sys.stdin.isatty():
        raise typer.BadParameter("Give a value, or send one to stdin: echo one | halfhitch produce")
    content = sys.stdin.buffer.read(_VALUE_BYTES_MAX + 1)
    if len(content) > _VALUE_BYTES_MAX:
        raise typer.BadParameter(f"What comes from stdin is larger than {_VALUE_BYTES_MAX} bytes.")
    if not content:
        raise typer.BadParameter("Nothing came from stdin. For a message without content give ''.")
    return content


def _producer(group: str, address: str | None, settings: Settings) -> "TransactionProducer":
    from halfhitch.client import TransactionProducer

    tokens = settings.auth.tokens
    return TransactionProducer(
        group,
        address,
        token=tokens[0].reveal() if tokens else None,
        answers_checks=False,  # nobody here could say what became of it
        tls=_tls(settings, address),
        encrypted_in_front=settings.client.encrypted_in_front or None,
    )


def _tls(settings: Settings, address: str | None) -> "ClientTls | None":
    given = settings.client
    if given.ca_file is None or not (address or "").startswith("https://"):
        return None
    from halfhitch.client.tls import ClientTls

    return ClientTls(given.ca_file, given.cert_file, given.key_file, given.server_name)


app.command(cls=PlainCommand)(settings_command(produce, only=("client", "auth")))
