"""Checks of what users pass to the DSL: every public method and option object answers a wrong argument alike.

:func:`checks_arguments` goes by the annotations, so that what a method says it takes is what it takes. What depends on
other arguments (the parameters of a joiner, a name that is taken) is checked by the methods themselves.
"""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum
from numbers import Integral
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin

import pyarrow.compute as pc

from millrace.callables import callable_name, deferred_kind, refuse_async
from millrace.errors import ArgumentError, TopologyError
from millrace.serdes import Serde
from millrace.serdes.checks import check_serde, is_serde, serde_remedy

CheckedT = TypeVar("CheckedT", bound=Callable[..., Any])

_Type: TypeAlias = Any
"""An annotation, evaluated."""

_YIELDING = frozenset({"flat_map", "flat_map_values"})
"""Methods whose callables give an iterable, so that a generator function is right."""

_ABOUT_ALL = frozenset({"build", "describe"})
"""Methods whose errors are about the whole topology, not about the call."""

_LONGEST_SHOWN = 80
_NODE_PARAMETERS = ("name", "topic", "topics", "source_name", "processor_name")

_USES = {
    "Consumed": "stream(), table() and global_table()",
    "Produced": "to()",
    "Grouped": "group_by() and group_by_key()",
    "Joined": "joins of a stream with a table",
    "StreamJoined": "joins of two streams",
    "TableJoined": "joins by a foreign key",
    "Materialized": "tables and aggregations",
    "Repartitioned": "repartition()",
    "Branched": "branch() and default_branch()",
    "Suppressed": "suppress()",
    "Named": "named=",
    "StoreBuilder": "add_state_store() and add_global_store()",
    "StoreSupplier": "Materialized.as_(), StreamJoined and the builders of Stores",
    "VersionedStoreSupplier": "Materialized.as_() and the builders of Stores",
}
"""What takes the option objects, by the name of their class."""


def checks_arguments(cls: CheckedT) -> CheckedT:
    """Makes a function, or a class's constructor and public methods, check their arguments.

    A wrong one is an ``ArgumentError`` that names the method, the node and topic where they are known, the argument and
    what to pass instead. A method with overloads that takes ``*arguments`` and ``**options`` is checked by the overload
    whose first argument has the type of the given one.
    """
    if not isinstance(cls, type):
        return typing.cast(CheckedT, _checked(None, cls.__name__, cls))
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, staticmethod | classmethod):
            setattr(cls, name, type(member)(_checked(cls, name, member.__func__)))
        elif inspect.isfunction(member):
            setattr(cls, name, _checked(cls, name, member))
    return cls


def _checked(cls: type | None, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    calls = _calls(function)
    signatures = {call: inspect.signature(call) for call in calls}
    takes_self = next(iter(inspect.signature(function).parameters), "") in ("self", "cls")

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        owner = args[0] if takes_self and args else None
        method = name if cls is None else cls.__name__ if name == "__init__" else f"{cls.__name__}.{name}"
        call = calls[0] if len(calls) == 1 else _meant(signatures, method, owner, args, kwargs)
        signature = signatures[call]
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _named(
                ArgumentError(f"{error}.", remedy=f"call it as {method}{_public(signature)}"), _where(method, owner, {})
            ) from error
        given = bound.arguments
        types = _types(call)
        constructor = "" if cls is None else f"{cls.__name__}()"
        where = functools.partial(_where, method, owner, given)
        with _naming(where, constructor):
            for argument, value in given.items():
                for each in _each(value, signature.parameters[argument].kind):
                    try:
                        _check(each, types.get(argument, Any), argument=argument, method=name, signature=signature)
                    except ArgumentError as error:
                        if len(calls) > 1:
                            error.remedy += f": {method}{_public(signature)}"
                        raise
        if call is not function:
            # The parameters of the overloads have names of their own.
            args, kwargs = bound.args, bound.kwargs
        if name in _ABOUT_ALL or (name == "__init__" and not hasattr(cls, "__dataclass_fields__")):
            return function(*args, **kwargs)
        with _naming(where, constructor):
            return function(*args, **kwargs)

    return checked


def _calls(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """The overloads of a function that takes whatever they take, otherwise the function itself."""
    takes = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
    takes_all = takes >= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return list(typing.get_overloads(function) if takes_all else ()) or [function]


def _meant(
    signatures: Mapping[Callable[..., Any], inspect.Signature],
    method: str,
    owner: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Callable[..., Any]:
    """The overload of a method whose first argument has the type of the given one.

    Raises:
        ArgumentError: the first argument is missing, or is of none of the types.
    """
    firsts = {call: list(signature.parameters)[1] for call, signature in signatures.items()}
    given = dict.fromkeys(firsts.values(), args[1]) if len(args) > 1 else kwargs
    for call, first in firsts.items():
        if first in given and _fits(given[first], _types(call)[first]):
            return call
    remedy = "call it as " + " or ".join(f"{method}{_public(signature)}" for signature in signatures.values())
    first = next((first for first in firsts.values() if first in given), "")
    expected = _expected([_types(call)[name] for call, name in firsts.items()])
    problem = f"{first} is {_shown(given[first])}" if first else "the first argument is missing"
    raise _named(ArgumentError(f"{problem}, and {expected} is expected.", remedy=remedy), _where(method, owner, {}))


@contextmanager
def _naming(call: Callable[[], str], constructor: str) -> Iterator[None]:
    """Errors name the call, unless they name one inside of it other than the constructor of the same class."""
    try:
        yield
    except TopologyError as error:
        if error.named_call == constructor:
            error.message = error.message.removeprefix(f"{constructor}: ")
        if error.named_call in ("", constructor):
            _named(error, call())
        raise


def _named(error: TopologyError, call: str) -> TopologyError:
    """The error, whose message now begins with the call that it is about."""
    error.named_call = call
    error.message = f"{call}: {error.message}"
    error.args = (error.message,)
    return error


def _each(value: Any, kind: Any) -> Iterable[Any]:
    """The arguments that a parameter stands for."""
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(value)
    return tuple(value.values()) if kind is inspect.Parameter.VAR_KEYWORD else (value,)


def _check(value: Any, kind: _Type, *, argument: str, method: str, signature: inspect.Signature) -> None:
    choices = list(_choices(kind))
    takes_callable = any(get_origin(choice) is _CALLABLE for choice in choices)
    if not any(_fits(value, choice) for choice in choices):
        which = ", which is not callable" if takes_callable else ""
        raise ArgumentError(
            f"{argument} is {_shown(value)}{which}, and {_expected(choices)} is expected.",
            remedy=_remedy(value, choices, signature),
        )
    if Serde in choices and value is not None:
        check_serde(value, what=argument, error=TopologyError)
    if callable(value) and takes_callable:
        deferred = deferred_kind(value, generators=method not in _YIELDING)
        if deferred == "a generator function":
            raise TopologyError(
                f"{argument} {callable_name(value)} is {deferred}, so that a call does not run its body.",
                remedy="return the result instead of yielding it; flat_map() and flat_map_values() take several",
            )
        refuse_async(value, what=argument)


_CALLABLE: Any = get_origin(Callable[..., Any])


def _choices(kind: _Type) -> Iterator[_Type]:
    """The members of a union, otherwise the type itself."""
    origin: Any = get_origin(kind)
    if origin in (Union, UnionType):
        for member in get_args(kind):
            yield from _choices(member)
    else:
        yield kind


def _fits(value: Any, kind: _Type) -> bool:  # noqa: PLR0911 - one line a kind of annotation
    if kind is Any or isinstance(kind, TypeVar | str):
        return True
    if kind is None or kind is NoneType:
        return value is None
    origin = get_origin(kind) or kind
    if origin is _CALLABLE:
        return callable(value)
    if not isinstance(origin, type):
        return True
    if origin is Serde:
        return is_serde(value)
    if getattr(origin, "_is_protocol", False):
        # What else users may write themselves is checked where it is used.
        return True
    if origin is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if origin is tuple:
        return isinstance(value, tuple)
    if origin is Sequence:
        if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
            return False
        (item,) = get_args(kind) or (Any,)
        return all(any(_fits(each, choice) for choice in _choices(item)) for each in value)
    return isinstance(value, origin)


def _expected(choices: Sequence[_Type]) -> str:
    words = [_words(choice) for choice in choices if choice not in (None, NoneType)]
    return " or ".join(dict.fromkeys(words)) or "None"


def _words(kind: _Type) -> str:
    origin = get_origin(kind) or kind
    plain: dict[Any, str] = {
        str: "a string",
        bool: "True or False",
        int: "a whole number",
        timedelta: "a timedelta",
        Serde: "a serde",
        _CALLABLE: "a function",
        Mapping: "a mapping",
        Sequence: "a list of them",
        tuple: "a tuple",
        pc.Expression: "a pyarrow expression",
    }
    name = getattr(origin, "__name__", str(origin))
    return plain.get(origin) or f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


def _remedy(value: Any, choices: Sequence[_Type], signature: inspect.Signature) -> str:  # noqa: PLR0911 - one a mistake
    types = [choice for choice in choices if isinstance(choice, type) and choice is not NoneType]
    options = [choice for choice in types if hasattr(choice, "as_") or hasattr(choice, "with_")]
    if isinstance(value, type) and any(issubclass(value, choice) for choice in types if choice is not Serde):
        return f"pass an object of it, not the class {value.__name__}"
    if Serde in types:
        return serde_remedy(value)
    enums = [choice for choice in types if issubclass(choice, Enum)]
    if enums:
        return f"pass one of {', '.join(str(member) for member in map(_member, enums[0]))}"
    name = type(value).__name__
    if name == "Named" and "named" in signature.parameters:
        return f"pass it by its name: named={_shown(value)}"
    text = value if isinstance(value, str) else getattr(value, "name", None) if name == "Named" else None
    for option in options:
        if text is not None and hasattr(option, "as_"):
            other = f", or named={text!r} to name the node" if "named" in signature.parameters else ""
            return f"pass {option.__name__}.as_({text!r}){other}"
        if is_serde(value) and hasattr(option, "with_"):
            return f"pass {option.__name__}.with_(...) with the serdes"
    if name == "StoreSupplier" and any(choice.__name__ == "StoreBuilder" for choice in types):
        return "make a builder of it: Stores.key_value_store_builder(supplier, key_serde, value_serde), or of its kind"
    if name == "StreamsBuilder":
        return "pass what its build() gives"
    if name in _USES:
        return f"pass {_expected(choices)}; {name} is for {_USES[name]}"
    return f"pass {_expected(choices)}"


def _member(member: Enum) -> str:
    return f"{type(member).__name__}.{member.name}"


def _shown(value: Any) -> str:
    """A value in a message: a class says that it is one, an object its type."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    name = type(value).__name__
    return shown if name in shown or value is None or isinstance(value, bool) else f"{shown} ({name})"


def _where(method: str, owner: Any, given: Mapping[str, Any]) -> str:
    """The method, what it was called for, and the node that it hangs on."""
    names = [repr(given[each]) for each in _NODE_PARAMETERS if isinstance(given.get(each), str)]
    called = f"{method}({', '.join(names)})"
    node = node_of(owner)
    return called if node is None else f"{called} behind {node}"


def node_of(owner: Any) -> str | None:
    """Returns the name of the node that a stream, table or group of the DSL is made by."""
    attributes = {} if isinstance(owner, type) or not hasattr(owner, "__dict__") else vars(owner)
    group = attributes.get("group") or attributes.get("_group")
    name = attributes.get("_name") if group is None else group.name
    return name if isinstance(name, str) else None


def _public(signature: inspect.Signature) -> str:
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


class _Names(dict[str, Any]):
    """The names that a module's annotations may use: its own, and those that its package exports."""

    def __init__(self, module: str) -> None:
        package = vars(sys.modules[module.rpartition(".")[0]])
        super().__init__({**vars(typing), **package, **vars(sys.modules[module])})

    def __missing__(self, name: str) -> Any:
        builtins = sys.modules["builtins"]
        # A name that only type checkers import, such as Spark's DataFrame.
        return getattr(builtins, name, Any)


@functools.cache
def _types(function: Callable[..., Any]) -> dict[str, _Type]:
    """The annotations of a function's parameters, evaluated."""
    names = _Names(function.__module__)
    return {
        argument: eval(kind, {}, names) if isinstance(kind, str) else kind
        for argument, kind in function.__annotations__.items()
        if argument != "return"
    }
