"""The offsets of a micro-batch, read from the query's own offset log, which Spark writes before the batch."""

from __future__ import annotations

from pathlib import Path

import orjson

from millrace.errors import OperationError
from millrace.topology.topic_partition import TopicPartition


def batch_ends(checkpoint: Path, batch_id: int) -> dict[TopicPartition, int]:
    """Returns the end offset of every input partition of a batch, which begins at the end of the batch before.

    Args:
        checkpoint: the query's checkpoint directory.
        batch_id: the batch's number.

    Raises:
        OperationError: the log is not as Spark 4.2 writes it.
    """
    path = checkpoint / "offsets" / str(batch_id)
    try:
        version, _metadata, *sources = path.read_text().splitlines()
        if version != "v1":
            raise ValueError(f"version {version}")
        ends: dict[TopicPartition, int] = {}
        for source in sources:
            for topic, partitions in orjson.loads(source).items():
                ends.update({(topic, int(partition)): int(offset) for partition, offset in partitions.items()})
    except (OSError, ValueError, AttributeError) as error:
        raise OperationError(
            f"The offset log of batch {batch_id} in {checkpoint} cannot be read: {error}.",
            remedy="keep the checkpoint directory until the application has stopped; it starts again by itself",
        ) from error
    return ends
