"""Dead letters: list, replay and purge them."""

from millrace.ops.dead_letters.box import KnownLetter, list_letters
from millrace.ops.dead_letters.letter import DeadLetter
from millrace.ops.dead_letters.purge import purge_letters
from millrace.ops.dead_letters.replay import replay_letters
from millrace.ops.dead_letters.selection import Selection, parse_letter

__all__ = [
    "DeadLetter",
    "KnownLetter",
    "Selection",
    "list_letters",
    "parse_letter",
    "purge_letters",
    "replay_letters",
]
