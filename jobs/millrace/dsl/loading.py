"""Loading a topology: from the name of a function, as a specification has it, to the topology that it builds."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from millrace.callables import deferred_kind
from millrace.config import StreamsConfig
from millrace.dsl import low_level
from millrace.dsl.builder import UNNAMED, StreamsBuilder
from millrace.errors import ConfigurationError, MillraceError, TopologyError
from millrace.topology.default_serdes import with_default_serdes
from millrace.topology.output_names import with_output_prefix
from millrace.topology.topic_names import check_topic_names
from millrace.topology.topology import FrozenTopology


def load_topology(module: str, config: StreamsConfig | None = None) -> FrozenTopology:
    """Returns the topology that a function builds.

    Args:
        module: ``package.module:function``; the function takes a :class:`StreamsBuilder`, and the configuration as
            well if it requires a second argument or has a parameter called ``config``. Where it returns a
            :class:`millrace.dsl.Topology`, that is taken instead of what the builder has collected; and where that is
            nothing, a topology that another builder has built.
        config: what the function may get, and settings that matter for building: rewrites, default serdes, and whether
            explicit names are compulsory; ``None``: the defaults, with a name and an address that stand for nothing;
            nothing is said of missing serdes then, since there may be a default.

    Raises:
        ConfigurationError: the module cannot be imported, or has no such function.
        TopologyError: the function failed, built nothing, gives topics names that a broker refuses, or has a topic or
            store without a serde that it needs.
    """
    module_name, _, function_name = module.partition(":")
    try:
        imported = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The module {module_name!r} cannot be imported: there is no {error.name!r}.",
            remedy="correct `module`, install the package, or put its directory on PYTHONPATH",
        ) from error
    except Exception as error:
        raise ConfigurationError(
            f"The module {module_name!r} cannot be imported: {type(error).__name__}: {error}.",
            remedy="fix the module; `millrace --verbose topology` shows the traceback",
        ) from error
    function = getattr(imported, function_name, None)
    if not callable(function):
        own = [
            name
            for name, member in inspect.getmembers(imported, inspect.isfunction)
            if member.__module__ == imported.__name__ and not name.startswith("_")
        ]
        raise ConfigurationError(
            f"The module {module_name!r} has no function {function_name!r}; it has {', '.join(own) or 'none'}.",
            remedy="name a function that takes a StreamsBuilder (and the configuration, if it wants), as "
            "`package.module:function`",
        )
    kind = deferred_kind(function)
    if kind is not None:
        raise ConfigurationError(
            f"{module} is {kind}, so that a call does not run its body.",
            remedy="make it a plain function that takes a StreamsBuilder",
        )
    builder = StreamsBuilder()
    try:
        result = _call(function, builder, config or StreamsConfig.from_mapping(UNNAMED))
    except MillraceError:
        raise
    except Exception as error:
        raise TopologyError(
            f"{module} failed while it built the topology: {type(error).__name__}: {error}.",
            remedy="fix the function; `millrace --verbose topology` shows the traceback",
        ) from error
    if isinstance(result, low_level.Topology):
        return _configured(result.build(), config)
    topology = result if isinstance(result, FrozenTopology) and builder.is_empty else builder.build(config)
    if not topology.sub_topologies:
        raise TopologyError(
            f"{module} reads global tables and nothing else, so there is nothing to run.",
            remedy="read a stream or a table as well",
        )
    return _configured(topology, config)


def _call(function: Callable[..., Any], builder: StreamsBuilder, config: StreamsConfig) -> Any:
    """Calls the function of a module with what it asks for."""
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return function(builder)
    asked = parameters.get("config")
    if asked is not None and asked.kind is inspect.Parameter.KEYWORD_ONLY:
        return function(builder, config=config)
    positional = [
        each
        for each in parameters.values()
        if each.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    second = positional[1] if len(positional) > 1 else None
    if second is not None and (second.default is inspect.Parameter.empty or second.name == "config"):
        return function(builder, config)
    return function(builder)


def _configured(topology: FrozenTopology, config: StreamsConfig | None) -> FrozenTopology:
    """The topology with what the configuration adds to it."""
    if config is None:
        return topology
    topology = with_default_serdes(topology, config)
    prefix = config.output_topic_prefix
    if prefix:
        topology = with_output_prefix(topology, prefix)
    check_topic_names(topology, config.application_id, dead_letter_topic=config.errors_dead_letter_queue_topic_name)
    return topology
