"""Makes the reference pages that can be made: docs/errors.md, docs/http.md, docs/http-admin.md.

The errors come from their classes and from the data door's table of statuses, the requests from
the contracts that the doors themselves give out. What to do about an error stands here (ADVICE),
since no class says it; a code without advice, and advice without a code, are red in
tests/tidy/test_pages.py.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml

from halfhitch.barrier import errors as barrier_errors
from halfhitch.client import errors as client_errors
from halfhitch.doors.http import errors as door_errors
from halfhitch.errors import BackendError, HalfHitchError, OutcomeUnknown, RequestError

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
DOORS: Final = ROOT / "sidecar" / "halfhitch" / "doors"
CONTRACT: Final = DOORS / "http" / "openapi.yaml"
ADMIN_CONTRACT: Final = DOORS / "admin" / "openapi.yaml"

_REPEAT: Final = "Repeat the same request after `Retry-After` seconds."
_ASK_OPERATOR: Final = "Ask whoever runs Half Hitch."
_REPAIR: Final = "Repair the request. The message names the field."
#: By code: what a program, or its author, does about it.
ADVICE: Final[Mapping[str, str]] = {
    "bad_answer": "Check the address: is it the data door (8340), and not the admin door or a "
    "proxy?",
    "certificate_required": "Show a client certificate: [tls.md](tls.md).",
    "checks_not_served": "Ask another door, or wait: this one has no check-back behind it.",
    "committed_in_part": "Send the messages that are missing in a new transaction.",
    "contrary_decision": "Accept the first decision. `decided` says which. A retry takes a new id.",
    "expectation_failed": "Send no `Expect` header, or `100-continue`.",
    "forbidden": "Have the right granted ([identities.md](identities.md)); the message names it.",
    "forbidden_topic": "Send to a topic that `topics.allow` lets through.",
    "headers_too_large": "Send fewer or shorter headers (`http.header_bytes_max`), or use JSON.",
    "host_not_allowed": "Use a name of the door, or add this one to `http.hosts`.",
    "http_version_not_supported": "Speak HTTP/1.1.",
    "internal_error": "Repeat it, which is safe, and report what the sidecar has logged.",
    "invalid_base64": _REPAIR,
    "invalid_handle": "Send the handle exactly as it came. If that is what you did: do all "
    "instances have the same `handle.key`?",
    "invalid_json": _REPAIR,
    "invalid_partition": "Fix the message to a partition that its topic has, or to none.",
    "invalid_request": _REPAIR,
    "kafka_unavailable": f"Nothing was stored. {_REPEAT}",
    "local_outcome_unknown": "Leave it to the check-back. Do not do the work again under a new id.",
    "malformed_request": "Repair the client, or the proxy between.",
    "message_too_large": "Send less: the message names the limit.",
    "method_not_allowed": "Use a method of `Allow`.",
    "origin_not_allowed": "Call from your server, not from a page in a browser.",
    "outcome_unknown": "It may be stored. Repeat the same request with the same transaction id or "
    "handle: it is carried out once.",
    "overloaded": _REPEAT,
    "owner_lags": f"{_REPEAT} [Why](operations.md#new-transactions-are-refused)",
    "producer_closed": "Close a producer after its last block.",
    "redis_unavailable": "Only operators' questions need Redis. Ask again once it is back.",
    "request_too_slow": "Send it faster, or in smaller parts (`http.receive_s_max`).",
    "reserved_header": "Rename the header: [these names are Half Hitch's]"
    "(reading.md#what-a-message-carries).",
    "route_not_found": "Check the path against [the list](http.md).",
    "shutting_down": "Repeat it at another instance, or at this one after its restart.",
    "sidecar_unavailable": "Start the sidecar, or give the right address. Nothing was stored.",
    "tls_expected": "Use `https://`.",
    "too_many_connections": "Keep connections open and use fewer, or raise `http.connections_max`.",
    "too_many_requests": "Slow down: an identity may have so many in a second "
    "([identities.md](identities.md#what-one-identity-may-take)).",
    "too_many_undecided": "End what is open: [how](operations.md#new-transactions-are-refused). "
    "New transactions are taken again once there is room.",
    "too_many_waiting": "Wait until the target topic is back: "
    "[why](operations.md#new-transactions-are-refused).",
    "transaction_doomed": "Roll the local transaction back and begin a new one. `__cause__` says "
    "which message failed.",
    "transaction_ended": "Begin a new transaction.",
    "transaction_fenced": "Begin again with a new id. The local transaction was rolled back.",
    "transaction_gone": "Look at the target topics, or ask `halfhitch tx trace`.",
    "transaction_id_reused": "Take a new id. The messages that were stored first stand.",
    "transaction_misused": "Use it in the process and event loop that began it. "
    "[The cases](client.md#what-you-may-see-raised)",
    "transaction_not_found": "Check the handle, and that it is the same cluster.",
    "transaction_parked": f"{_ASK_OPERATOR} [What they do](operations.md#transactions-were-parked)",
    "transaction_recorded_twice": "Do not run the local transaction again. "
    "`error.committed_before` says whether the first one stands.",
    "transaction_too_large": "Send fewer or smaller messages in one transaction.",
    "unauthorized": "Send a token in `Half-Token` (`token=...` of the Python producers).",
    "unavailable": _REPEAT,
    "unknown_topic": "Create the topic, or repair its name.",
    "unsupported_media_type": "Send `application/json`, without `Content-Encoding`.",
    "visibility_unknown": "The decision stands. Look again later, or leave out `wait=visible`.",
    "wrong_group": "Name the group that prepared, or none.",
}

# -- errors --------------------------------------------------------------------------------------

_ERRORS_HEAD: Final = """\
# Errors

Every error that a program can meet, by its code. This page is made by `tools/pages.py` of the
classes themselves. A code is stable: programs may compare it. The message is for people: it says
what is wrong and what to do next, and its words may change.

**Three things to know**

- `retryable` says whether the same request may succeed later. 429 and 503 say in `Retry-After`
  when.
- A 500 or 503 to a prepare or an end is no "no": it may have taken effect. Repeat it with the same
  transaction id or handle. It is carried out once.
- Never answer an unknown outcome with the contrary decision.

## Over HTTP

```json
{"error": {"code": "unknown_topic", "message": "...", "retryable": false}}
```

`contrary_decision` also has `decided` and `requested`.

"""
_CLIENT_HEAD: Final = """
## In Python

The client raises the class for a code. All are `halfhitch.errors.HalfHitchError`, with `code`,
`message` and `retryable`. Codes of the table above that have no class here are a `RequestError` or
a `BackendError`, and the code stands in the message. What to do in the middle of a block:
[client.md](client.md#what-you-may-see-raised).

| class | code | kind | it means | do |
|---|---|---|---|---|
"""
_ERRORS_TAIL: Final = """
The *kind* is a base class that `except` can take for many. `RequestError`: the request cannot be
carried out, now or later. `BackendError`: trouble behind the door; the same call may succeed later.
`OutcomeUnknown`: a `BackendError` after which it is not known whether the call was carried out.

## On the command line

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | it failed, or some of it; one line on stderr says why |
| 2 | the command or a setting is wrong |
| 3 | not healthy: `status`, `doctor`, `verify`, `topics verify`, `healthcheck` |
| 4 | `verify` saw nothing wrong, and could not look at enough to judge |
| 130 | stopped by Ctrl-C, or by a question that was answered with no |

## To RocketMQ's clients

[A table](from-rocketmq.md#when-something-is-refused) has their response codes. The remark begins
with the code of this page.
"""


def first_sentences(kind: type[HalfHitchError]) -> str:
    """The first paragraph of what the class says of itself, as a cell of a table."""
    said = inspect.getdoc(kind) or ""
    return " ".join(said.partition("\n\n")[0].split()).replace("|", "\\|")


def wire_errors() -> dict[str, tuple[int, type[HalfHitchError]]]:
    """Code -> status and class, of what the data door can answer; of two the wider class."""
    found: dict[str, tuple[int, type[HalfHitchError]]] = {}
    for kind, status in door_errors.STATUS_OF.items():
        shown = door_errors.InternalError if status == HTTPStatus.INTERNAL_SERVER_ERROR else kind
        known = found.get(shown.code)
        # A base that lends its code to others says less of itself than the one that is raised.
        if known is None or (known[1] is RequestError and issubclass(shown, known[1])):
            found[shown.code] = status, shown
    return found


def client_classes() -> list[type[HalfHitchError]]:
    """What programs that use the Python client or a barrier can catch, beyond what doors say."""
    return [
        kind
        for module in (client_errors, barrier_errors)
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, HalfHitchError)
        and kind.__module__ == module.__name__
    ]


def _advice(kind: type[HalfHitchError]) -> str:
    return _OF_CLASS.get(kind.__name__) or ADVICE[kind.code]


#: Where two classes share a code, and mean different things.
_OF_CLASS: Final[Mapping[str, str]] = {
    "PrepareUnknown": "Do not go on with the local transaction. Leave the block, or prepare again "
    "with the same id and messages.",
    "DecisionUnknown": "Never compensate. Repeat `producer.commit(error.handle)` (or `rollback`), "
    "or leave it to the check-back.",
}


def _kind(kind: type[HalfHitchError]) -> str:
    for base in (OutcomeUnknown, BackendError, RequestError):
        if issubclass(kind, base):
            return base.__name__
    return "HalfHitchError"


def errors_page() -> str:
    """docs/errors.md."""
    lines = ["| status | code | retryable | it means | do |", "|---|---|---|---|---|"]
    for code, (status, kind) in sorted(wire_errors().items(), key=lambda row: (row[1][0], row[0])):
        retry = "yes" if kind.retryable else "no"
        lines.append(
            f"| {status} | `{code}` | {retry} | {first_sentences(kind)} | {_advice(kind)} |"
        )
    rows = [
        f"| `{kind.__name__}` | `{kind.code}` | `{_kind(kind)}` | {first_sentences(kind)} "
        f"| {_advice(kind)} |"
        for kind in client_classes()
    ]
    table = "\n".join(lines) + "\n"
    return _ERRORS_HEAD + table + _CLIENT_HEAD + "\n".join(rows) + "\n" + _ERRORS_TAIL


# -- HTTP ----------------------------------------------------------------------------------------

_HTTP_HEAD: Final = """\
# HTTP

The data door, request by request. This page is made by `tools/pages.py` of
[openapi.yaml](../sidecar/halfhitch/doors/http/openapi.yaml), which every sidecar also gives out at
`GET /v1/openapi.yaml`. What errors mean: [errors.md](errors.md). A walk through all of it in one
program: [other-languages.md](other-languages.md).

"""


_ADMIN_HEAD: Final = """\
# HTTP of the admin door

What operators and their tools ask, request by request. This page is made by `tools/pages.py` of
[openapi.yaml](../sidecar/halfhitch/doors/admin/openapi.yaml), which every sidecar also gives out at
`GET /v1/openapi.yaml` of that door. The same as commands: [operations.md](operations.md).

"""


class Contract:
    """The contract with its references looked up."""

    def __init__(self, text: str) -> None:
        self.whole: dict[str, Any] = yaml.safe_load(text)

    def __call__(self, node: Any) -> Any:
        """What a node says, or what it refers to."""
        while isinstance(node, dict) and "$ref" in node:
            target: Any = self.whole
            for key in node["$ref"].removeprefix("#/").split("/"):
                target = target[key]
            node = target
        return node

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
        """Method, path, what all of the path have, and the operation."""
        for path, item in self.whole["paths"].items():
            for method, operation in item.items():
                if method != "parameters":
                    yield method.upper(), path, item, operation


def name_of(node: Any) -> str:
    """Of a reference its last word."""
    return str(node["$ref"]).rpartition("/")[2]


def _sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def shape(contract: Contract, schema: Any) -> str:
    """A type in a few words, with a link where it has a table of its own."""
    if isinstance(schema, dict) and "$ref" in schema:
        name = name_of(schema)
        target = contract(schema)
        is_named = "properties" in target or ("oneOf" in target and name != "HeaderValue")
        return f"[{name}](#{name.lower()})" if is_named else shape(contract, target)
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        items = schema.get("items", {})
        return "pairs" if "prefixItems" in items else f"list of {shape(contract, items)}"
    if "oneOf" in schema:
        return " or ".join(dict.fromkeys(shape(contract, one) for one in schema["oneOf"]))
    if "properties" in schema:
        return f"object with {', '.join(f'`{name}`' for name in schema['properties'])}"
    kinds = schema.get("type", "anything")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if schema.get("contentEncoding") == "base64":
        kinds = ["base64" if kind == "string" else kind for kind in kinds]
    return " or ".join(kinds)


def _parameters(contract: Contract, item: Mapping[str, Any], operation: Any) -> Iterator[str]:
    rows = [contract(p) for p in (*item.get("parameters", ()), *operation.get("parameters", ()))]
    if rows:
        yield "| parameter | in | type | meaning |"
        yield "|---|---|---|---|"
    for row in rows:
        must = " (required)" if row.get("required") and row["in"] != "path" else ""
        yield (
            f"| `{row['name']}` | {row['in']}{must} | {_cell(shape(contract, row['schema']))} "
            f"| {_cell(row.get('description', ''))} |"
        )
    if rows:
        yield ""


def _body(contract: Contract, operation: Any) -> Iterator[str]:
    for kind, media in contract(operation.get("requestBody", {})).get("content", {}).items():
        if kind != "application/json":
            if kind != "*/*":
                yield f"The body is `{kind}`.\n"
            continue
        yield f"The body is {shape(contract, media['schema'])}.\n"
        for example in media.get("examples", {}).values():
            yield f"```json\n{json.dumps(example['value'], indent=2)}\n```\n"


def _answers(contract: Contract, operation: Any) -> Iterator[str]:
    yield "| status | answer |"
    yield "|---|---|"
    codes: list[str] = []
    for status, given in operation["responses"].items():
        if status == "default":
            continue
        answer = contract(given)
        media = answer.get("content", {})
        named = _codes(media)
        if named:
            codes += named
            continue
        said = [_cell(answer["description"]).rstrip(".")]
        for kind, what in media.items():
            of = "" if kind == "application/json" else f" (`{kind}`)"
            said.append(f"{shape(contract, what['schema'])}{of}")
        said += [f"header `{name}`" for name in answer.get("headers", ())]
        yield f"| {status} | {'; '.join(said)} |"
    yield ""
    if codes or "default" in operation["responses"]:
        yield f"Errors: {', '.join(f'`{code}`' for code in codes) or '[errors.md](errors.md)'}."
        yield ""


def _codes(media: Mapping[str, Any]) -> list[str]:
    """Which error codes an answer may have, where the contract names them."""
    schema = media.get("application/json", {}).get("schema", {})
    for one in schema.get("allOf", ()):
        error = one.get("properties", {}).get("error", {})
        if "code" in error.get("properties", {}):
            return list(error["properties"]["code"]["enum"])
    return []


def _schema(contract: Contract, name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    if "description" in schema:
        yield f"{schema['description'].strip()}\n"
    if "properties" not in schema:
        yield f"{_cell(' or '.join(shape(contract, one) for one in schema['oneOf']))}\n"
        return
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    required = schema.get("required", ())
    for field, what in schema["properties"].items():
        must = "" if field in required else ", may be missing"
        said = what.get("description", "")
        yield f"| `{field}` | {_cell(shape(contract, what))}{must} | {_cell(said)} |"
    yield ""


def http_page(file: Path = CONTRACT, head: str = _HTTP_HEAD) -> str:
    """docs/http.md, or docs/http-admin.md."""
    contract = Contract(file.read_text())
    lines = [contract.whole["info"]["description"].strip(), "", "## Requests", ""]
    for method, path, item, operation in contract.operations():
        lines += [f"### {method} {path}", "", _sentence(operation["summary"]), ""]
        if "description" in operation:
            lines += [operation["description"].strip(), ""]
        lines += _parameters(contract, item, operation)
        lines += _body(contract, operation)
        lines += _answers(contract, operation)
    lines += ["## Values", ""]
    for name, schema in contract.whole["components"]["schemas"].items():
        if shape(contract, {"$ref": f"#/components/schemas/{name}"}).startswith("["):
            lines += _schema(contract, name, schema)
    return head + "\n".join(lines).rstrip() + "\n"


def made() -> Iterator[tuple[Path, str]]:
    """Every file that this writes, and its text."""
    yield DOCS / "errors.md", errors_page()
    yield DOCS / "http.md", http_page()
    yield DOCS / "http-admin.md", http_page(ADMIN_CONTRACT, _ADMIN_HEAD)


def main() -> int:
    """Write what differs."""
    for path, text in made():
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
            print(f"{path} is new")  # noqa: T201 - the command's own answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
