"""The loops over messages of librdkafka, compiled to machine code of this processor.

A message is a C structure, and reading ten fields of each through Python costs five times what the client does for it.
So the loops are machine code, compiled when a process first reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from millrace.kafka.columns.c_interface import InterfaceUnavailableError, address_of, librdkafka
from millrace.machine_code import MachineCodeUnavailableError, compiled, function

MESSAGE_FIELDS = (
    ("error", 0, "i32"),
    ("topic", 8, "i64"),
    ("partition", 16, "i32"),
    ("value", 24, "i64"),
    ("value_bytes", 32, "i64"),
    ("key", 40, "i64"),
    ("key_bytes", 48, "i64"),
    ("offset", 56, "i64"),
)
"""Name, offset and type of the fields of ``rd_kafka_message_t`` on a machine of 64 bits. ``topic``, ``value`` and
``key`` are addresses; those of a null are 0."""

(ERROR, TOPIC, PARTITION, VALUE, VALUE_BYTES, KEY, KEY_BYTES, OFFSET, TIMESTAMP, HAS_HEADERS) = range(10)
"""Rows of the table that :attr:`Kernel.examine` fills. A timestamp is -1 where the record has none."""

TABLE_ROWS = 10

_STORE_FIELD = """
  %{name}.at = getelementptr i8, ptr %message, i64 {offset}
  %{name}.raw = load {type}, ptr %{name}.at
  %{name} = {widen}
  %{name}.index = add i64 %row.{number}, %i
  %{name}.to = getelementptr i64, ptr %table, i64 %{name}.index
  store i64 %{name}, ptr %{name}.to"""

_EXAMINE = """
define void @examine(ptr %messages, i64 %n, ptr %table) {{
entry:
  %kind = alloca i32
  %list = alloca ptr
{rows}
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr ptr, ptr %messages, i64 %i
  %message = load ptr, ptr %from
{fields}
  %stamp.raw = call i64 inttoptr (i64 {timestamp} to ptr)(ptr %message, ptr %kind)
  %kind.now = load i32, ptr %kind
  %kind.none = icmp eq i32 %kind.now, 0
  %stamp = select i1 %kind.none, i64 -1, i64 %stamp.raw
  %stamp.index = add i64 %row.8, %i
  %stamp.to = getelementptr i64, ptr %table, i64 %stamp.index
  store i64 %stamp, ptr %stamp.to
  %headers.answer = call i32 inttoptr (i64 {headers} to ptr)(ptr %message, ptr %list)
  %headers.has = icmp eq i32 %headers.answer, 0
  %headers.wide = zext i1 %headers.has to i64
  %headers.index = add i64 %row.9, %i
  %headers.to = getelementptr i64, ptr %table, i64 %headers.index
  store i64 %headers.wide, ptr %headers.to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

_GATHER = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @gather(ptr %addresses, ptr %sizes, i64 %n, ptr %target) {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %to = phi ptr [ %target, %entry ], [ %to.next, %loop ]
  %address.at = getelementptr ptr, ptr %addresses, i64 %i
  %address = load ptr, ptr %address.at
  %size.at = getelementptr i64, ptr %sizes, i64 %i
  %size = load i64, ptr %size.at
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %address, i64 %size, i1 false)
  %to.next = getelementptr i8, ptr %to, i64 %size
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

_DESTROY = """
define void @destroy(ptr %messages, i64 %n) {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr ptr, ptr %messages, i64 %i
  %message = load ptr, ptr %from
  call void inttoptr (i64 {destroy} to ptr)(ptr %message)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

_COUNT_HEADERS = """
define void @count_headers(ptr %messages, i64 %n, ptr %counts) {{
entry:
  %list = alloca ptr
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr ptr, ptr %messages, i64 %i
  %message = load ptr, ptr %from
  %answer = call i32 inttoptr (i64 {headers} to ptr)(ptr %message, ptr %list)
  %headers = load ptr, ptr %list
  %count = call i64 inttoptr (i64 {header_count} to ptr)(ptr %headers)
  %to = getelementptr i64, ptr %counts, i64 %i
  store i64 %count, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

_LIST_HEADERS = """
declare i64 @strlen(ptr)

define void @list_headers(
    ptr %messages, i64 %n, ptr %counts, ptr %names, ptr %name_sizes, ptr %values, ptr %value_sizes
) {{
entry:
  %list = alloca ptr
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %end ]
  %base = phi i64 [ 0, %entry ], [ %base.next, %end ]
  %from = getelementptr ptr, ptr %messages, i64 %i
  %message = load ptr, ptr %from
  %answer = call i32 inttoptr (i64 {headers} to ptr)(ptr %message, ptr %list)
  %headers = load ptr, ptr %list
  %count.at = getelementptr i64, ptr %counts, i64 %i
  %count = load i64, ptr %count.at
  br label %inner
inner:
  %j = phi i64 [ 0, %loop ], [ %j.next, %one ]
  %is.more = icmp slt i64 %j, %count
  br i1 %is.more, label %one, label %end
one:
  %index = add i64 %base, %j
  %name.to = getelementptr ptr, ptr %names, i64 %index
  %value.to = getelementptr ptr, ptr %values, i64 %index
  %size.to = getelementptr i64, ptr %value_sizes, i64 %index
  %got = call i32 inttoptr (i64 {header_get} to ptr)(
    ptr %headers, i64 %j, ptr %name.to, ptr %value.to, ptr %size.to
  )
  %name = load ptr, ptr %name.to
  %name.size = call i64 @strlen(ptr %name)
  %name.size.to = getelementptr i64, ptr %name_sizes, i64 %index
  store i64 %name.size, ptr %name.size.to
  %j.next = add i64 %j, 1
  br label %inner
end:
  %base.next = add i64 %base, %count
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


@dataclass(frozen=True)
class Kernel:
    """The compiled loops. Addresses are those of contiguous arrays of 64-bit integers, unless said otherwise.

    Args:
        examine: (messages, n, table): fields of each message, timestamp, and whether it has headers, into a table of
            :data:`TABLE_ROWS` rows of n.
        gather: (addresses, sizes, n, target): bytes from each address one behind the other, into bytes.
        destroy: (messages, n): gives the messages back.
        count_headers: (messages, n, counts): of messages that have headers.
        list_headers: (messages, n, counts, names, name sizes, values, value sizes): their addresses and sizes.
        engine: what owns the machine code.
    """

    examine: Any
    gather: Any
    destroy: Any
    count_headers: Any
    list_headers: Any
    engine: Any


@lru_cache(maxsize=1)
def kernel() -> Kernel:
    """Returns the loops, compiled at the first call in a process.

    Raises:
        InterfaceUnavailableError: this machine cannot compile or run them.
    """
    library = librdkafka()
    try:
        engine = compiled(_source(library))
    except MachineCodeUnavailableError as error:
        raise InterfaceUnavailableError(str(error)) from error
    return Kernel(
        examine=function(engine, "examine", "pnp"),
        gather=function(engine, "gather", "ppnp"),
        destroy=function(engine, "destroy", "pn"),
        count_headers=function(engine, "count_headers", "pnp"),
        list_headers=function(engine, "list_headers", "pnppppp"),
        engine=engine,
    )


def _source(library: Any) -> str:
    rows = "\n".join(f"  %row.{number} = mul i64 %n, {number}" for number in range(TABLE_ROWS))
    fields = "".join(
        _STORE_FIELD.format(
            name=name,
            offset=offset,
            type=kind,
            number=number,
            widen=f"sext i32 %{name}.raw to i64" if kind == "i32" else f"add i64 %{name}.raw, 0",
        )
        for number, (name, offset, kind) in enumerate(MESSAGE_FIELDS)
    )
    return "".join((_EXAMINE, _GATHER, _DESTROY, _COUNT_HEADERS, _LIST_HEADERS)).format(
        rows=rows,
        fields=fields,
        timestamp=address_of(library.rd_kafka_message_timestamp),
        headers=address_of(library.rd_kafka_message_headers),
        destroy=address_of(library.rd_kafka_message_destroy),
        header_count=address_of(library.rd_kafka_header_cnt),
        header_get=address_of(library.rd_kafka_header_get_all),
    )
