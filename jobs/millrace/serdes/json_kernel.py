"""The loop over JSON objects of known shapes, as machine code: text in, columns out.

It takes no liberty: of each value it takes the literal text of a shape between the leaves, byte for byte, and at each
leaf a null, a boolean, a string without escapes or a number of few digits. Any other byte ends the attempt, and the
caller reads the value by a parser of all of JSON.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

from millrace.machine_code import compiled, function
from millrace.serdes.json_scanners import DOUBLE_DIGITS, SCANNERS


class LeafKind(IntEnum):
    """The kind of a leaf: what is taken there, and where it goes.

    ``END`` is the end of the value. ``ABSENT`` takes nothing and gives a null. ``SKIPPED`` takes any scalar and gives
    nothing. The others take a null or their kind.
    """

    END = 0
    ABSENT = 1
    SKIPPED = 2
    BOOLEAN = 3
    INTEGER = 4
    DOUBLE = 5
    STRING = 6


LEAF_COLUMNS = 6
"""64-bit columns of the table of leaves: kind, start and size of the literal before the leaf among the literals, and
three addresses: of the column's cells (64 bits, for strings 32 bits and the first is the start of row 0), of a byte for
each row that is 1 where the row is not null, and of the strings' bytes."""

_POWERS = ", ".join(f"double 1.0e+{exponent}" for exponent in range(DOUBLE_DIGITS + 1))

_SOURCE = """
@powers = internal constant [{power_count} x double] [{powers}]

; The address behind row %i, read by the shape of %count leaves at %leaves, or null.
define internal ptr @object(
    ptr %start, ptr %end, i64 %i, ptr %leaves, i64 %count, ptr %literals, ptr %seen,
    ptr %size, ptr %number, ptr %digits, ptr %fraction
) {{
entry:
  %i.next = add i64 %i, 1
  br label %loop
loop:
  %f = phi i64 [ 0, %entry ], [ %f.next, %leaf.done ]
  %at = phi ptr [ %start, %entry ], [ %at.next, %leaf.done ]
  %leaf.index = mul i64 %f, {leaf_columns}
  %leaf = getelementptr i64, ptr %leaves, i64 %leaf.index
  %kind = load i64, ptr %leaf
  %text.from.at = getelementptr i64, ptr %leaf, i64 1
  %text.from = load i64, ptr %text.from.at
  %text.size.at = getelementptr i64, ptr %leaf, i64 2
  %text.size = load i64, ptr %text.size.at
  %text = getelementptr i8, ptr %literals, i64 %text.from
  %begin = call ptr @literal(ptr %at, ptr %end, ptr %text, i64 %text.size)
  %cells.at = getelementptr i64, ptr %leaf, i64 3
  %cells = load ptr, ptr %cells.at
  %valid.at = getelementptr i64, ptr %leaf, i64 4
  %valid = load ptr, ptr %valid.at
  %data.at = getelementptr i64, ptr %leaf, i64 5
  %data = load ptr, ptr %data.at
  %valid.to = getelementptr i8, ptr %valid, i64 %i
  %cell.to = getelementptr i64, ptr %cells, i64 %i
  %offset.at = getelementptr i32, ptr %cells, i64 %i
  %offset.to = getelementptr i32, ptr %cells, i64 %i.next
  %differs = icmp eq ptr %begin, null
  br i1 %differs, label %no, label %null.may
null.may:
  %last = icmp eq i64 %kind, {END}
  br i1 %last, label %ends, label %absent.may
ends:
  %complete = icmp eq ptr %begin, %end
  br i1 %complete, label %yes, label %no
absent.may:
  %absent = icmp eq i64 %kind, {ABSENT}
  br i1 %absent, label %is.null, label %some.may
some.may:
  %nothing = icmp eq ptr %begin, %end
  br i1 %nothing, label %no, label %null.look
null.look:
  %head = load i8, ptr %begin
  %n = icmp eq i8 %head, 110
  br i1 %n, label %null.read, label %scalar
null.read:
  %null.end = call ptr @literal(ptr %begin, ptr %end, ptr @null.text, i64 4)
  %no.null = icmp eq ptr %null.end, null
  br i1 %no.null, label %no, label %is.null
is.null:
  %null.next = phi ptr [ %begin, %absent.may ], [ %null.end, %null.read ]
  %unkept = icmp eq i64 %kind, {SKIPPED}
  br i1 %unkept, label %leaf.done, label %null.keep
null.keep:
  store i8 0, ptr %valid.to
  %text.column = icmp eq ptr %data, null
  br i1 %text.column, label %null.cell, label %null.string
null.cell:
  store i64 0, ptr %cell.to
  br label %leaf.done
null.string:
  %null.offset = load i32, ptr %offset.at
  store i32 %null.offset, ptr %offset.to
  br label %leaf.done
scalar:
  switch i64 %kind, label %skipped [
    i64 {BOOLEAN}, label %boolean
    i64 {INTEGER}, label %numeric
    i64 {DOUBLE}, label %numeric
    i64 {STRING}, label %string
  ]
string:
  %offset = load i32, ptr %offset.at
  %offset.wide = sext i32 %offset to i64
  %data.to = getelementptr i8, ptr %data, i64 %offset.wide
  %string.end = call ptr @string(ptr %begin, ptr %end, ptr %data.to, ptr %size, ptr %seen)
  %no.string = icmp eq ptr %string.end, null
  br i1 %no.string, label %no, label %string.keep
string.keep:
  %string.size = load i64, ptr %size
  %string.size.narrow = trunc i64 %string.size to i32
  %offset.next = add i32 %offset, %string.size.narrow
  store i32 %offset.next, ptr %offset.to
  store i8 1, ptr %valid.to
  br label %leaf.done
numeric:
  %number.end = call ptr @number(ptr %begin, ptr %end, ptr %number, ptr %digits, ptr %fraction)
  %no.number = icmp eq ptr %number.end, null
  br i1 %no.number, label %no, label %number.kind
number.kind:
  %value = load i64, ptr %number
  %behind.point = load i64, ptr %fraction
  switch i64 %kind, label %leaf.done [
    i64 {INTEGER}, label %integer
    i64 {DOUBLE}, label %double
  ]
integer:
  %pointed = icmp ne i64 %behind.point, 0
  br i1 %pointed, label %no, label %integer.keep
integer.keep:
  store i64 %value, ptr %cell.to
  store i8 1, ptr %valid.to
  br label %leaf.done
double:
  %double.digits = load i64, ptr %digits
  %double.long = icmp sgt i64 %double.digits, {double_digits}
  br i1 %double.long, label %no, label %double.keep
double.keep:
  %whole = sitofp i64 %value to double
  %power.at = getelementptr double, ptr @powers, i64 %behind.point
  %power = load double, ptr %power.at
  %double.value = fdiv double %whole, %power
  store double %double.value, ptr %cell.to
  store i8 1, ptr %valid.to
  br label %leaf.done
boolean:
  %true.end = call ptr @literal(ptr %begin, ptr %end, ptr @true.text, i64 4)
  %false = icmp eq ptr %true.end, null
  br i1 %false, label %false.read, label %boolean.keep
false.read:
  %false.end = call ptr @literal(ptr %begin, ptr %end, ptr @false.text, i64 5)
  %no.boolean = icmp eq ptr %false.end, null
  br i1 %no.boolean, label %no, label %boolean.keep
boolean.keep:
  %boolean.end = phi ptr [ %true.end, %boolean ], [ %false.end, %false.read ]
  %truth = phi i64 [ 1, %boolean ], [ 0, %false.read ]
  store i64 %truth, ptr %cell.to
  store i8 1, ptr %valid.to
  br label %leaf.done
skipped:
  switch i8 %head, label %numeric [
    i8 34, label %skip.string
    i8 116, label %skip.true
    i8 102, label %skip.false
  ]
skip.string:
  %skip.string.end = call ptr @string(ptr %begin, ptr %end, ptr %data, ptr %size, ptr %seen)
  br label %skip.done
skip.true:
  %skip.true.end = call ptr @literal(ptr %begin, ptr %end, ptr @true.text, i64 4)
  br label %skip.done
skip.false:
  %skip.false.end = call ptr @literal(ptr %begin, ptr %end, ptr @false.text, i64 5)
  br label %skip.done
skip.done:
  %skip.end = phi ptr [ %skip.string.end, %skip.string ], [ %skip.true.end, %skip.true ],
    [ %skip.false.end, %skip.false ]
  %no.skip = icmp eq ptr %skip.end, null
  br i1 %no.skip, label %no, label %leaf.done
leaf.done:
  %at.next = phi ptr [ %null.next, %is.null ], [ %null.next, %null.cell ], [ %null.next, %null.string ],
    [ %string.end, %string.keep ], [ %number.end, %number.kind ], [ %number.end, %integer.keep ],
    [ %number.end, %double.keep ], [ %boolean.end, %boolean.keep ], [ %skip.end, %skip.done ]
  %f.next = add i64 %f, 1
  %more = icmp slt i64 %f.next, %count
  br i1 %more, label %loop, label %no
yes:
  ret ptr %end
no:
  ret ptr null
}}

@null.text = internal constant [4 x i8] c"null"
@true.text = internal constant [4 x i8] c"true"
@false.text = internal constant [5 x i8] c"false"

define i64 @read(
    ptr %bytes, ptr %offsets, i64 %row, i64 %n, ptr %shapes, i64 %shape.count, ptr %leaves, ptr %literals, ptr %seen
) {{
entry:
  %size = alloca i64
  %number = alloca i64
  %digits = alloca i64
  %fraction = alloca i64
  %some = icmp slt i64 %row, %n
  br i1 %some, label %rows, label %done
rows:
  %i = phi i64 [ %row, %entry ], [ %i.next, %row.done ]
  %shape.first = phi i64 [ 0, %entry ], [ %shape, %row.done ]
  %from.at = getelementptr i32, ptr %offsets, i64 %i
  %from = load i32, ptr %from.at
  %from.wide = sext i32 %from to i64
  %start = getelementptr i8, ptr %bytes, i64 %from.wide
  %i.next = add i64 %i, 1
  %to.at = getelementptr i32, ptr %offsets, i64 %i.next
  %to = load i32, ptr %to.at
  %to.wide = sext i32 %to to i64
  %end = getelementptr i8, ptr %bytes, i64 %to.wide
  br label %try
try:
  %tried = phi i64 [ 0, %rows ], [ %tried.next, %another ]
  %shape.turn = add i64 %shape.first, %tried
  %shape = urem i64 %shape.turn, %shape.count
  %shape.index = mul i64 %shape, 2
  %shape.at = getelementptr i64, ptr %shapes, i64 %shape.index
  %leaf.first = load i64, ptr %shape.at
  %leaf.count.at = getelementptr i64, ptr %shape.at, i64 1
  %leaf.count = load i64, ptr %leaf.count.at
  %leaf.index = mul i64 %leaf.first, {leaf_columns}
  %leaf = getelementptr i64, ptr %leaves, i64 %leaf.index
  %behind = call ptr @object(
    ptr %start, ptr %end, i64 %i, ptr %leaf, i64 %leaf.count, ptr %literals, ptr %seen,
    ptr %size, ptr %number, ptr %digits, ptr %fraction
  )
  %differs = icmp eq ptr %behind, null
  br i1 %differs, label %another, label %row.done
another:
  %tried.next = add i64 %tried, 1
  %more.shapes = icmp slt i64 %tried.next, %shape.count
  br i1 %more.shapes, label %try, label %stopped
stopped:
  ret i64 %i
row.done:
  %more.rows = icmp slt i64 %i.next, %n
  br i1 %more.rows, label %rows, label %done
done:
  ret i64 %n
}}
"""


@dataclass(frozen=True)
class JsonKernel:
    """The compiled loop.

    Args:
        read: (bytes, offsets of 32 bits, first row, rows, shapes, number of shapes, leaves, literals, seen): reads rows
            from the first one on, each by the first of the shapes that fits it, and returns the row that none fits, or
            the number of rows. A shape is two 64-bit integers, its first leaf and their number; ``seen`` is a byte that
            gets the bits of all bytes of strings.
        engine: what owns the machine code.
    """

    read: Any
    engine: Any


@lru_cache(maxsize=1)
def json_kernel() -> JsonKernel:
    """Returns the loop, compiled at the first call in a process.

    Raises:
        MachineCodeUnavailableError: this machine cannot compile or run it.
    """
    engine = compiled(
        SCANNERS
        + _SOURCE.format(
            power_count=DOUBLE_DIGITS + 1,
            powers=_POWERS,
            double_digits=DOUBLE_DIGITS,
            leaf_columns=LEAF_COLUMNS,
            **{kind.name: kind.value for kind in LeafKind},
        )
    )
    return JsonKernel(read=function(engine, "read", "ppnnpnppp", ctypes.c_int64), engine=engine)
