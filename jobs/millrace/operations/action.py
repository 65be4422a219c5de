"""What an operation decided or came to, as one of a fixed set: what callers act on. The words are what is printed."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """What was done, or is to be done."""

    NOTHING = "nothing"
    WAIT = "wait"
    """Nothing now; it is looked at again later."""
    START = "start"
    RESTART = "restart"
    UPGRADE = "upgrade"
    """It goes, or went, to another specification or other code."""
    STOP = "stop"
    STOPPED = "stopped"
    """It was asked to stop, or was taken over elsewhere, and stays stopped."""
    BLOCKED = "blocked"
    """The preflight refused the start, which is tried again later."""
    ROLLED_BACK = "rolled_back"
    """The new specification was not healthy in time; the last good one runs again."""
    FAILED = "failed"
    GIVE_UP = "give_up"
    """The limit of restarts is reached."""
    ADOPT = "adopt"
    """A supervising task owns what runs already."""
    TAKE_OVER = "take over"
    """The offsets of a Kafka Streams application were signed."""
    PERFORM = "perform"
    """The steps of a multi-step operation: its name says what that is."""
    PLAN = "plan"
    DELETE = "delete"
    PROMOTE = "promote"
    DRILL = "drill"
    RECOVERED = "recovered"
    NOT_RECOVERED = "not recovered"

    @property
    def changes_something(self) -> bool:
        """Whether reconciling starts or ends a process by it."""
        return self in {Action.RESTART, Action.UPGRADE, Action.STOP}

    @property
    def leaves_new_one_down(self) -> bool:
        """Whether the specification that a deployment was about does not run after it."""
        return self in {Action.ROLLED_BACK, Action.FAILED, Action.STOPPED}
