"""From a specification to its topology."""

from __future__ import annotations

import importlib

from millrace.dsl import StreamsBuilder
from millrace.errors import MillraceError, TopologyError
from millrace.ops.spec import ApplicationSpec
from millrace.topology.topology import Topology


def load_topology(spec: ApplicationSpec) -> Topology:
    """Import the application's module and build its topology.

    Raises:
        TopologyError: the module or its function is missing, fails, or builds nothing that can run.
    """
    module_name, _, function_name = spec.module.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise TopologyError(
            f"Module {module_name} of {spec.name} cannot be imported: {type(error).__name__}: {error}.",
            remedy="correct `module` in the specification, or what the module imports",
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise TopologyError(
            f"Module {module_name} of {spec.name} has no function {function_name}.",
            remedy=f"define `def {function_name}(builder: StreamsBuilder) -> None`",
        )
    builder = StreamsBuilder()
    try:
        function(builder)
    except MillraceError:
        raise
    except Exception as error:
        raise TopologyError(
            f"{spec.module} of {spec.name} failed while it built its topology: {type(error).__name__}: {error}.",
            remedy="correct the function",
        ) from error
    return builder.build(
        ensure_explicit_naming=spec.streams_config().ensure_explicit_internal_resource_naming,
    )
