"""Dead-letter records: list, replay and purge them."""

from millrace.operations.dead_letters.purge import purge_dead_letter_records
from millrace.operations.dead_letters.record import DeadLetterRecord
from millrace.operations.dead_letters.replay import replay_dead_letter_records
from millrace.operations.dead_letters.selection import Selection, parse_record_position
from millrace.operations.dead_letters.topic import ListedDeadLetterRecord, list_dead_letter_records

__all__ = [
    "DeadLetterRecord",
    "ListedDeadLetterRecord",
    "Selection",
    "list_dead_letter_records",
    "parse_record_position",
    "purge_dead_letter_records",
    "replay_dead_letter_records",
]
