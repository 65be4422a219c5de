"""What the buttons do: each starts a DAG. A button whose DAG is not there is not shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Action:
    """One button.

    Args:
        dag_id: the DAG that it starts.
        label: what the button says.
        explanation: what it does, in a sentence.
        deletes: whether it may delete something or write what cannot be undone: a dry run comes first.
    """

    dag_id: str
    label: str
    explanation: str
    deletes: bool = False


ACTIONS = {
    action.dag_id: action
    for action in (
        Action(
            dag_id="millrace_deploy",
            label="Deploy",
            explanation="Starts the application, or brings it to its present specification.",
        ),
        Action(
            dag_id="millrace_stop",
            label="Stop",
            explanation="Lets it finish its batches, commit and end. Only a deployment starts it again.",
        ),
        Action(
            dag_id="millrace_preflight",
            label="Preflight",
            explanation="Checks everything that a deployment would check, and changes nothing.",
        ),
        Action(
            dag_id="millrace_savepoint",
            label="Take savepoint",
            explanation="Keeps the state and the progress of the whole application as they are at one moment.",
        ),
        Action(
            dag_id="millrace_restore",
            label="Restore",
            explanation="Replaces state, progress and what waits in its own topics by those of a savepoint.",
            deletes=True,
        ),
        Action(
            dag_id="millrace_state_audit",
            label="Audit state",
            explanation="Compares the stores with what their changelogs say.",
        ),
        Action(
            dag_id="millrace_compaction",
            label="Compact changelogs",
            explanation="Has changelog topics cleaned and stores compacted, so that a recovery reads less.",
            deletes=True,
        ),
        Action(
            dag_id="millrace_dead_letter_replay",
            label="Replay dead-letter records",
            explanation="Sends dead-letter records back to the topics from which they were read.",
            deletes=True,
        ),
        Action(
            dag_id="millrace_reset",
            label="Reset",
            explanation="Forgets state and progress, so that the application begins again.",
            deletes=True,
        ),
    )
}
"""By DAG, in the order in which the buttons stand."""
