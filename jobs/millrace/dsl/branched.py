"""``BranchedKStream``: what ``split()`` returns."""

from __future__ import annotations

from dataclasses import replace

from millrace.dsl.callables import check_mapper
from millrace.dsl.kstream import KStream
from millrace.dsl.method_hints import EndOfStream, MethodHints
from millrace.dsl.options import Branched
from millrace.errors import TopologyError
from millrace.topology import naming
from millrace.topology.arguments import checks_arguments
from millrace.topology.logical import Process
from millrace.topology.operators import Branch, PassThrough, Predicate


@checks_arguments
class BranchedKStream(MethodHints):
    """A stream on its way to being split (KIP-418): add branches, then end with a default branch or without one.

    The dictionary of branches has names made of the split's name and the branch's.
    """

    def __init__(self, stream: KStream, name: str | None) -> None:
        self._stream = stream
        self._graph = stream._graph
        self._name = self._graph.new_name(naming.STREAM_BRANCH, name)
        self._count = 0
        self._branches: dict[str, KStream] = {}
        self._graph.add(Process(name=self._name, parents=(stream._name,), operator=Branch(())))

    def branch(self, predicate: Predicate, branched: Branched | None = None) -> BranchedKStream:
        """Takes the records for which ``predicate`` is true and no earlier branch's was."""
        check_mapper(predicate, what="predicate")
        options = branched or Branched()
        self._count += 1
        child = self._name + (options.name or str(self._count))
        operator = self._operator()
        self._set_operator(replace(operator, predicates=(*operator.predicates, (predicate, child))))
        self._add_child(child, options)
        return self

    def default_branch(self, branched: Branched | None = None) -> dict[str, KStream]:
        """Takes the records that no branch took; returns all branches by name."""
        options = branched or Branched()
        child = self._name + (options.name or "0")
        self._set_operator(replace(self._operator(), default_child=child))
        self._add_child(child, options)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream]:
        """Drops the records that no branch took; returns all branches by name."""
        return self._branches

    def _operator(self) -> Branch:
        node = self._graph.node(self._name)
        assert isinstance(node, Process)
        assert isinstance(node.operator, Branch)
        return node.operator

    def _set_operator(self, operator: Branch) -> None:
        node = self._graph.node(self._name)
        assert isinstance(node, Process)
        self._graph.replace(replace(node, operator=operator))

    def _add_child(self, name: str, options: Branched) -> None:
        self._graph.new_name(naming.STREAM_BRANCH, name)
        self._graph.add(Process(name=name, parents=(self._name,), operator=PassThrough()))
        stream = self._stream
        branch = KStream(
            self._graph,
            name,
            key_serde=stream._key_serde,
            value_serde=stream._value_serde,
            sources=stream._sources,
            key_changed=stream._key_changed,
        )
        if options.function is not None:
            transformed = options.function(branch)
            if isinstance(transformed, MethodHints):
                self._branches[name] = transformed
            elif transformed is not None and not isinstance(transformed, EndOfStream):
                raise TopologyError(
                    f"The function of branch {name} returns {transformed!r}.",
                    remedy="return a KStream, or nothing where the branch ends in the function",
                )
        elif options.consumer is not None:
            options.consumer(branch)
        else:
            self._branches[name] = branch
