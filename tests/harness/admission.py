"""An API server's admission policies, as far as the charts use them, by cel-python: no cluster.

Owns `admitted`: a pod in, and what becomes of it out, or the sentence that refuses it. It knows
label selectors, match conditions, variables, JSON patches and validations, and the functions of
Kubernetes' CEL that the charts call. cel-python has neither Kubernetes' types nor its limits of
cost, and takes a condition in a field of `JSONPatch{}` only in brackets (it gives what stands
before the question mark otherwise).
"""

from __future__ import annotations

import copy
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import celpy
from celpy import celtypes

from halfhitch_cli.pod_resources import LOOKS_LIKE_AN_AMOUNT, amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.charts import Object

_POLICIES: Final = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")


class Refused(Exception):
    """What the API server would answer, instead of making the pod."""


def _texts(items: Iterable[str]) -> celtypes.ListType:
    return celtypes.ListType(celtypes.StringType(one) for one in items)


def _quantity(text: str) -> celtypes.DoubleType:
    if not re.fullmatch(LOOKS_LIKE_AN_AMOUNT, text):
        raise ValueError(text)  # an error of CEL's, which && and || may pass over
    return celtypes.DoubleType(amount(text))


#: Kubernetes' functions, and those of CEL's extensions, that cel-python does not have.
_FUNCTIONS: Final[Mapping[str, Any]] = {
    "range": lambda _, count: celtypes.ListType(celtypes.IntType(n) for n in range(count)),
    "split": lambda text, by, most=0: _texts(text.split(by, int(most) - 1)),
    "join": lambda texts, by: celtypes.StringType(by.join(texts)),
    "replace": lambda text, old, new: celtypes.StringType(text.replace(old, new)),
    "trim": lambda text: celtypes.StringType(text.strip()),
    "quantity": _quantity,
    "isGreaterThan": lambda one, other: celtypes.BoolType(one > other),
    "isLessThan": lambda one, other: celtypes.BoolType(one < other),
    "upperAscii": lambda text: celtypes.StringType(text.upper()),
}


@cache
def _program(expression: str) -> Any:
    environment = celpy.Environment(annotations={"JSONPatch": celtypes.MessageType})
    return environment.program(environment.compile(expression), functions=dict(_FUNCTIONS))


def evaluated(expression: str, context: Mapping[str, Any]) -> Any:
    """What the expression gives, in Python's own types."""
    return _plain(_value(expression, {name: _cel(value) for name, value in context.items()}))


def _value(expression: str, context: Mapping[str, Any]) -> Any:
    return _program(expression).evaluate({"lists": celtypes.MapType(), **context})


def _cel(value: Any) -> Any:
    return value if isinstance(value, celtypes.MapType) else celpy.json_to_cel(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    for theirs, ours in ((celtypes.BoolType, bool), (celtypes.IntType, int), (str, str)):
        if isinstance(value, theirs):
            return ours(value)
    return value


def admitted(objects: Iterable[Object], pod: Object) -> Object:
    """What becomes of `pod` where these objects are; `Refused` where it may not be made."""
    rendered = list(objects)
    found = copy.deepcopy(pod)
    for kind in _POLICIES:
        for policy in rendered:
            if policy["kind"] == kind and _matches(policy["spec"], found):
                for binding in rendered:
                    if binding["kind"] == f"{kind}Binding" and _binds(binding, policy):
                        found = _dispatched(policy["spec"], found)
    return found


def _binds(binding: Object, policy: Object) -> bool:
    return bool(binding["spec"]["policyName"] == policy["metadata"]["name"])


def _matches(spec: Object, pod: Object) -> bool:
    """Selector and conditions. Conditions may not use variables, and here they cannot."""
    selector = spec["matchConstraints"]["objectSelector"]
    labels = pod["metadata"].get("labels") or {}
    if any(labels.get(name) != value for name, value in selector.get("matchLabels", {}).items()):
        return False
    for one in selector.get("matchExpressions", ()):
        assert one["operator"] == "Exists", "the only one that the charts use"
        if one["key"] not in labels:
            return False
    return all(
        evaluated(one["expression"], {"object": pod}) is True for one in spec["matchConditions"]
    )


class _Variables(celtypes.MapType):
    """Each is worked out when an expression asks for it, as an API server does it, and once.

    All must compile, and each may use only those before it.
    """

    def __init__(self, named: Iterable[Mapping[str, str]], context: Mapping[str, Any]) -> None:
        super().__init__()
        self._expressions = {one["name"]: one["expression"] for one in named}
        self._places = {name: place for place, name in enumerate(self._expressions)}
        self._end = len(self._places)
        self._context = context
        for expression in self._expressions.values():
            _program(expression)

    def __getitem__(self, name: Any) -> Any:
        place = self._places[name]
        if place >= self._end:
            raise KeyError(name)
        if name not in self:
            before, self._end = self._end, place
            try:
                self[celtypes.StringType(name)] = _value(self._expressions[name], self._context)
            finally:
                self._end = before
        return super().__getitem__(name)


def _dispatched(spec: Object, pod: Object) -> Object:
    context: dict[str, Any] = {"object": _cel(pod)}
    context["variables"] = _Variables(spec["variables"], context)
    for one in spec.get("validations", ()):
        if _plain(_value(one["expression"], context)) is not True:
            said = one.get("messageExpression")
            raise Refused(_plain(_value(said, context)) if said else one["message"])
    for one in spec.get("mutations", ()):
        for patch in _plain(_value(one["jsonPatch"]["expression"], context)):
            _apply(pod, patch)
    return pod


def _apply(document: Object, patch: Mapping[str, Any]) -> None:
    """One operation of a JSON patch: `add`, `replace` and `remove`, all that the charts use."""
    steps = [re.sub("~1", "/", step) for step in patch["path"].split("/")[1:]]
    place: Any = document
    for step in steps[:-1]:
        place = place[int(step) if isinstance(place, list) else step]
    last = steps[-1]
    if patch["op"] == "remove":
        del place[last]
        return
    if isinstance(place, list) and patch["op"] == "add":
        place.insert(int(last), patch["value"])
        return
    assert patch["op"] == "add" or last in place, f"there is no {patch['path']} to replace"
    place[last] = copy.deepcopy(patch["value"])
