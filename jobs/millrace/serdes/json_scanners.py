"""What the kernel takes at a leaf, in LLVM's language: literals, strings without escapes, numbers without exponents.

Each function gives the address behind what it took, or null, and reads no byte at or behind the end.
"""

from __future__ import annotations

INTEGER_DIGITS = 18
"""An integer of so many digits fits into 64 bits."""
DOUBLE_DIGITS = 15
"""A decimal of so many digits is a double's shortest form, and an exact integer over an exact power of ten: division
rounds as reading does (W. Clinger, How to Read Floating Point Numbers Accurately, 1990)."""

SCANNERS = """
; The address behind a literal, or null where the bytes do not begin with it.
define internal ptr @literal(ptr %at, ptr %end, ptr %text, i64 %size) {
entry:
  %at.n = ptrtoint ptr %at to i64
  %end.n = ptrtoint ptr %end to i64
  %left = sub i64 %end.n, %at.n
  %short = icmp slt i64 %left, %size
  br i1 %short, label %differs, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %same ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %compare, label %equal
compare:
  %have.at = getelementptr i8, ptr %at, i64 %i
  %have = load i8, ptr %have.at
  %want.at = getelementptr i8, ptr %text, i64 %i
  %want = load i8, ptr %want.at
  %next = add i64 %i, 1
  %is = icmp eq i8 %have, %want
  br i1 %is, label %same, label %differs
same:
  br label %loop
equal:
  %behind = getelementptr i8, ptr %at, i64 %size
  ret ptr %behind
differs:
  ret ptr null
}

; The address behind a string, or null; copies its bytes, adds their bits to %seen, stores their number.
define internal ptr @string(ptr %at, ptr %end, ptr %to, ptr %size, ptr %seen) {
entry:
  %empty = icmp eq ptr %at, %end
  br i1 %empty, label %no, label %open
open:
  %first = load i8, ptr %at
  %is.quote = icmp eq i8 %first, 34
  br i1 %is.quote, label %start, label %no
start:
  %from = getelementptr i8, ptr %at, i64 1
  %seen.before = load i8, ptr %seen
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %keep ]
  %bits = phi i8 [ %seen.before, %start ], [ %bits.next, %keep ]
  %byte.at = getelementptr i8, ptr %from, i64 %i
  %over = icmp eq ptr %byte.at, %end
  br i1 %over, label %no, label %look
look:
  %byte = load i8, ptr %byte.at
  %closes = icmp eq i8 %byte, 34
  br i1 %closes, label %close, label %check
check:
  %control = icmp ult i8 %byte, 32
  %escape = icmp eq i8 %byte, 92
  %bad = or i1 %control, %escape
  br i1 %bad, label %no, label %keep
keep:
  %target = getelementptr i8, ptr %to, i64 %i
  store i8 %byte, ptr %target
  %bits.next = or i8 %bits, %byte
  %next = add i64 %i, 1
  br label %loop
close:
  store i8 %bits, ptr %seen
  store i64 %i, ptr %size
  %behind = getelementptr i8, ptr %byte.at, i64 1
  ret ptr %behind
no:
  ret ptr null
}

; The address behind a run of digits, which may be empty; goes on with %number and %count.
define internal ptr @digits(ptr %at, ptr %end, ptr %number, ptr %count) {
entry:
  %number.before = load i64, ptr %number
  %count.before = load i64, ptr %count
  br label %loop
loop:
  %here = phi ptr [ %at, %entry ], [ %here.next, %add ]
  %value = phi i64 [ %number.before, %entry ], [ %value.next, %add ]
  %n = phi i64 [ %count.before, %entry ], [ %n.next, %add ]
  %over = icmp eq ptr %here, %end
  br i1 %over, label %done, label %look
look:
  %byte = load i8, ptr %here
  %digit = sub i8 %byte, 48
  %is = icmp ult i8 %digit, 10
  br i1 %is, label %room, label %done
room:
  %full = icmp sge i64 %n, {integer_digits}
  br i1 %full, label %no, label %add
add:
  %wide = zext i8 %digit to i64
  %ten = mul i64 %value, 10
  %value.next = add i64 %ten, %wide
  %n.next = add i64 %n, 1
  %here.next = getelementptr i8, ptr %here, i64 1
  br label %loop
done:
  store i64 %value, ptr %number
  store i64 %n, ptr %count
  ret ptr %here
no:
  ret ptr null
}

; The address behind a number without an exponent, or null: all digits as an integer with the sign, how many, and how
; many of them behind the point, which is not bare. A minus before zero is refused.
define internal ptr @number(ptr %at, ptr %end, ptr %number, ptr %count, ptr %fraction) {
entry:
  store i64 0, ptr %number
  store i64 0, ptr %count
  store i64 0, ptr %fraction
  %empty = icmp eq ptr %at, %end
  br i1 %empty, label %no, label %sign
sign:
  %byte = load i8, ptr %at
  %minus = icmp eq i8 %byte, 45
  %step = zext i1 %minus to i64
  %from = getelementptr i8, ptr %at, i64 %step
  %whole.end = call ptr @digits(ptr %from, ptr %end, ptr %number, ptr %count)
  %too.long = icmp eq ptr %whole.end, null
  br i1 %too.long, label %no, label %whole
whole:
  %whole.count = load i64, ptr %count
  %none = icmp eq i64 %whole.count, 0
  br i1 %none, label %no, label %leading
leading:
  %first = load i8, ptr %from
  %zero = icmp eq i8 %first, 48
  %several = icmp sgt i64 %whole.count, 1
  %padded = and i1 %zero, %several
  br i1 %padded, label %no, label %point.may
point.may:
  %over = icmp eq ptr %whole.end, %end
  br i1 %over, label %finish.whole, label %point.look
point.look:
  %mark = load i8, ptr %whole.end
  %point = icmp eq i8 %mark, 46
  br i1 %point, label %point.is, label %finish.whole
point.is:
  %behind.point = getelementptr i8, ptr %whole.end, i64 1
  %fraction.end = call ptr @digits(ptr %behind.point, ptr %end, ptr %number, ptr %count)
  %fraction.long = icmp eq ptr %fraction.end, null
  br i1 %fraction.long, label %no, label %fraction.count
fraction.count:
  %all = load i64, ptr %count
  %behind = sub i64 %all, %whole.count
  store i64 %behind, ptr %fraction
  %bare = icmp eq i64 %behind, 0
  br i1 %bare, label %no, label %finish
finish.whole:
  br label %finish
finish:
  %last = phi ptr [ %whole.end, %finish.whole ], [ %fraction.end, %fraction.count ]
  %value = load i64, ptr %number
  %nothing = icmp eq i64 %value, 0
  %minus.zero = and i1 %nothing, %minus
  br i1 %minus.zero, label %no, label %yes
yes:
  %negated = sub i64 0, %value
  %signed = select i1 %minus, i64 %negated, i64 %value
  store i64 %signed, ptr %number
  ret ptr %last
no:
  ret ptr null
}
""".replace("{integer_digits}", str(INTEGER_DIGITS))
"""The functions ``literal``, ``string``, ``digits`` and ``number``."""
