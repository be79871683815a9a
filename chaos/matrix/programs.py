"""The programs of the matrix: what README and docs/barrier.md show, filled in.

A program is the document's own text with the names of this run: group, topics, id, two messages
where the document sends one. Asyncio's are the same text with everything awaited, as the documents
say. A phrase that is not found any more is an error: the documents cannot rot.

What is filled in is in `Values`; what a program is, in `Program`: its text, up to the block and
from there on, so that a forked child can run the block alone.
"""

from __future__ import annotations

import ast
import inspect
import json
import linecache
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chaos.matrix.stores import ORDERS
from harness.snippets import fence_with, inline_with, replaced

if TYPE_CHECKING:
    from collections.abc import Callable

README, BARRIER, CLIENT = "README.md", "docs/barrier.md", "docs/client.md"

RAW, BLOCK, HAND, DBAPI = "by hand", "barrier's block", "barrier by hand", "barrier, plain driver"
FIRST, LISTENER = "README's first", "listener"

#: How the second attempt under one's own id differs from the first.
SAME, FEWER, MORE = "same", "fewer", "more"

#: What a program does that the documents advise against.
SWALLOWS = "swallows a failed send"
MESSAGES_FIRST = "messages before rows"
ROLLS_BACK_MISSING = "a missing row is a roll back"
ALWAYS_ROLLS_BACK = "leaving the block by anything rolls back"
ERROR_ROLLS_BACK = "a listener takes an error of its commit for a roll back"
#: And what the barrier would be without a guard of its own.
UNWATCHED = "a commit is not asked for its record"


@dataclass(frozen=True)
class Form:
    """A way to write it, blocking or asyncio."""

    name: str
    is_async: bool = False

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.name}{', asyncio' if self.is_async else ''}"

    @property
    def has_barrier(self) -> bool:
        """Its checks are answered from the barrier's table."""
        return self.name not in (RAW, LISTENER)

    @property
    def has_session(self) -> bool:
        """The record is followed by a session's commit, and that by hooks before it."""
        return self.has_barrier and self.name != DBAPI

    @property
    def attempts(self) -> tuple[str, ...]:
        """How a second one may be: a listener's has the one message that it sends."""
        return (SAME,) if self.name == LISTENER else (SAME, FEWER, MORE)


FORMS = (
    Form(RAW),
    Form(BLOCK),
    Form(HAND),
    Form(DBAPI),
    Form(FIRST),
    Form(LISTENER),
    Form(RAW, is_async=True),
    Form(BLOCK, is_async=True),
    Form(HAND, is_async=True),
    Form(FIRST, is_async=True),
    Form(LISTENER, is_async=True),
)
BY_TITLE = {form.title: form for form in FORMS}


@dataclass(frozen=True)
class Filling:
    """What stands where the document has an example."""

    group: str
    topics: dict[str, str]
    #: None: the client makes the id, as the document shows it.
    own_id: str | None
    attempt: str = SAME
    misuse: str = ""


class Program:
    """Compiled, to be run in a namespace of its values."""

    def __init__(self, text: str, *, is_async: bool) -> None:
        self.text = text
        self.is_async = is_async
        tree = ast.parse(text)
        block = _block_of(tree)
        self.first_line = block.lineno
        # Where tracing looks the lines up.
        linecache.cache["<program>"] = (len(text), None, text.splitlines(keepends=True), "")
        self._whole = self._compiled(tree)
        self._block = self._compiled(ast.Module([block], type_ignores=[]))

    def run(self, values: dict[str, Any]) -> Any:
        """All of it; a coroutine for asyncio's."""
        return self._begin(self._whole, values)

    def run_block(self, values: dict[str, Any]) -> Any:
        """With the barrier and the producer that `values` hold already."""
        return self._begin(self._block, values)

    def _compiled(self, tree: ast.Module) -> Any:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if self.is_async else 0
        return compile(tree, "<program>", "exec", flags=flags, dont_inherit=True)

    def _begin(self, code: Any, values: dict[str, Any]) -> Any:
        if not self.is_async:
            exec(code, values)
            return None
        begun = eval(code, values)
        return begun if inspect.iscoroutine(begun) else _nothing()


async def _nothing() -> None:
    """A text without an await."""


def program(form: Form, filling: Filling) -> Program:
    """The document's text of this form, filled in."""
    texts = {RAW: _raw, BLOCK: _block, HAND: _hand, DBAPI: _dbapi, FIRST: _first}
    text = {**texts, LISTENER: _listener}[form.name](filling)
    text = _with_names(text, filling)
    if form.name != LISTENER:
        text = _with_sends(text, filling)
    if filling.misuse == MESSAGES_FIRST:
        text = _messages_first(text)
    if form.is_async:
        text = _awaited(text)
    return Program(text, is_async=form.is_async)


def readme_check(paid: Callable[[str], bool]) -> Callable[[Any], Any]:
    """The check that README writes down for those who have no barrier."""
    from halfhitch.client import LocalTransactionState

    said = inline_with(README, "check=lambda check:").partition("check=")[2]
    given = {"LocalTransactionState": LocalTransactionState, "paid": paid}
    check: Callable[[Any], Any] = eval(said, given)
    return check


def order_value(order_id: str, number: int) -> bytes:
    """What a message says: nobody else's is equal."""
    return json.dumps({"id": order_id, "n": number}).encode()


def message_count(form: Form, filling: Filling) -> int:
    """How many this attempt sends, which its order knows too."""
    if form.name == LISTENER:
        return 1
    return {SAME: 2, FEWER: 1, MORE: 3}[filling.attempt]


# -- the documents' texts ------------------------------------------------------------------------


def _raw(_: Filling) -> str:
    text = fence_with(README, "database.commit()", "producer.transaction()")
    return re.sub(r'TransactionProducer\("(\w+)"', r'TransactionProducer("\1", check=check', text)


def _block(_: Filling) -> str:
    text = fence_with(BARRIER, "barrier.transaction(producer)", "session.add(")
    return replaced(text, "Order(...)", "order")


def _hand(filling: Filling) -> str:
    setup = fence_with(BARRIER, "barrier.transaction(producer)", "session.add(")
    imports = setup.partition("\n\n")[0]
    setup = setup[: setup.index("with ")]
    text = fence_with(BARRIER, "barrier.record(")
    producer = 'producer = TransactionProducer("orders", check=barrier.check)\n'
    assert imports in setup
    return replaced(setup + producer + text, "Order(...)", "order")


def _dbapi(_: Filling) -> str:
    text = fence_with(BARRIER, "DbapiBarrier(")
    text = replaced(text, "psycopg.connect(dsn)", "connect()")
    text = replaced(text, '"INSERT INTO orders ..."', "insert_order")
    text = replaced(text, "connection.execute(", "connection.cursor().execute(")
    producer = (
        "from halfhitch import TransactionProducer\n"
        'producer = TransactionProducer("orders", check=barrier.check)\n'
    )
    at = text.index("with barrier")
    return text[:at] + producer + text[at:]


def _first(filling: Filling) -> str:
    text = fence_with(README, "create_engine(", "barrier.transaction(producer)")
    text = replaced(text, 'create_engine("sqlite:///first.db")', "engine")
    text = replaced(text, "NOT EXISTS orders (", f"NOT EXISTS {ORDERS} (")
    count = {SAME: 2, FEWER: 1, MORE: 3}[filling.attempt]
    text = replaced(text, "INTO orders VALUES (:id)", f"INTO {ORDERS} VALUES (:id, {count})")
    text = replaced(text, """'{"order": 4711}'""", "order_json")
    return replaced(text, """'{"points": 5}'""", "points_json")


def _listener(filling: Filling) -> str:
    text = fence_with(CLIENT, "execute_local_transaction", "send_message_in_transaction")
    text = replaced(text, 'Message("orders"', f'Message("{filling.topics["orders"]}"')
    if filling.own_id is not None:
        own = json.dumps(filling.own_id)
        text = replaced(text, "customer)", f"customer, transaction_id={own})")
    if filling.misuse == ERROR_ROLLS_BACK:
        commit = "        database.commit()"
        text = replaced(text, commit, f"        try:\n    {commit}")
        answer = "        return LocalTransactionState.COMMIT\n\n"
        rolls_back = (
            "        except Exception:\n            return LocalTransactionState.ROLLBACK\n"
        )
        text = replaced(text, answer, rolls_back + answer)
    if filling.misuse == SWALLOWS:
        *above, send = text.rstrip("\n").splitlines()
        text = "\n".join([*above, _swallowed(send.replace("order_json", "points_json")), ""])
    return text


# -- filling in ----------------------------------------------------------------------------------


def _with_names(text: str, filling: Filling) -> str:
    """Group, topics, id, and a message that says whose it is."""
    group = json.dumps(filling.group)
    text = re.sub(r'(TransactionProducer\()"\w+"', rf"\1{group}", text)
    text = re.sub(r'(Barrier\(.+, )"\w+"\)', rf"\1{group})", text)
    text = text.replace('b"..."', "order_json")
    for name in re.findall(r'\.send\("([\w-]+)"', text):
        text = text.replace(f'.send("{name}"', f'.send("{filling.topics[name]}"')
    if filling.own_id is not None:
        own = json.dumps(filling.own_id)
        text = re.sub(r"\.transaction\(\)", f".transaction({own})", text)
        text = re.sub(r"\.transaction\(producer\)", f".transaction(producer, {own})", text)
    return text


def _with_sends(text: str, filling: Filling) -> str:
    """Two messages, where the document sends one; one or three in an attempt that differs."""
    lines = text.splitlines()
    sends = [n for n, line in enumerate(lines) if ".send(" in line]
    first = lines[sends[0]]
    if len(sends) == 1:
        # At the end of the block, with local work between the two; but before the local commit.
        indent = first[: len(first) - len(first.lstrip())]
        last = max(n for n, line in enumerate(lines) if line.startswith(indent) and n > 0)
        last = sends[0] if "session.begin()" in text else last
        topic = re.sub(r'\.send\("[^"]+"', f'.send("{filling.topics["points"]}"', first)
        lines.insert(last + 1, topic.replace("order_json", "points_json"))
        sends.append(last + 1)
    second = lines[sends[1]]
    if filling.misuse == SWALLOWS:
        lines[sends[1]] = _swallowed(second)
    elif filling.attempt == FEWER:
        del lines[sends[1]]
    elif filling.attempt == MORE:
        lines.insert(sends[1] + 1, second.replace("points_json", "more_json"))
    return "\n".join(lines) + "\n"


def _swallowed(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    told = line.strip().replace("points_json", "too_large")
    return f"{indent}try:\n{indent}    {told}\n{indent}except Exception:\n{indent}    pass"


def _messages_first(text: str) -> str:
    """The commit of the rows stands behind the block, where the messages' has been."""
    lines = [line for line in text.splitlines() if "database.commit()" not in line]
    return "\n".join([*lines, "database.commit()", ""])


def _awaited(text: str) -> str:
    """`AsyncBarrier(async_engine, "orders")`, everything awaited, `async with`."""
    for old, new in (
        ("import TransactionProducer", "import AsyncTransactionProducer"),
        ("from halfhitch.barrier import Barrier", "from halfhitch.barrier import AsyncBarrier"),
        ("= Barrier(", "= AsyncBarrier("),
        ("= TransactionProducer(", "= AsyncTransactionProducer("),
        ("with TransactionProducer(", "async with AsyncTransactionProducer("),
        ("with barrier.transaction(", "async with barrier.transaction("),
        ("with producer.transaction(", "async with producer.transaction("),
        ("with Session(", "async with AsyncSession("),
        ("tx.send(", "await tx.send("),
        ("barrier.create(", "await barrier.create("),
        ("barrier.record(", "await barrier.record("),
        ("database.commit(", "await database.commit("),
        ("with engine.begin(", "async with engine.begin("),
        ("connection.execute(", "await connection.execute("),
        ("session.execute(", "await session.execute("),
        ("    def execute_local", "    async def execute_local"),
        ("    def check_local", "    async def check_local"),
        ("if paid(", "if await paid("),
        ("producer.send_message", "await producer.send_message"),
        (
            "import LocalTransactionState, Message, Tr",
            "import LocalTransactionState, Message, AsyncTr",
        ),
    ):
        text = text.replace(old, new)
    return text


def _block_of(tree: ast.Module) -> ast.With | ast.AsyncWith | ast.Assign:
    """The innermost one that is a transaction of the producer's or of the barrier's.

    Of a listener the statement that sends.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and "send_message_in" in ast.unparse(node.value):
            return node
        if isinstance(node, ast.With | ast.AsyncWith):
            called = getattr(node.items[0].context_expr, "func", None)
            if isinstance(called, ast.Attribute) and called.attr == "transaction":
                return node
    raise LookupError("the program has no transaction's block")
