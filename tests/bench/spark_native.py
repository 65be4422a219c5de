"""Counts payments per user and minute with Spark's own operators, until it is terminated.

RocksDB state with changelog checkpointing, update mode, Spark's Kafka sink, ``local[2]``. What a careful user of Spark
would set is set: one shuffle partition per topic partition, large fetches, no speculation, adaptive plans off (they do
not apply to stateful queries).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

from tests.bench.workloads import GRACE_MS, WINDOW_MS

_PAYMENT = "user STRING, amount DOUBLE, currency STRING, country STRING, merchant STRING, at BIGINT"


def _long_bytes(number: Column) -> Column:
    """Eight bytes, big-endian: what Kafka Streams' long serde writes."""
    return f.unhex(f.lpad(f.hex(number), 16, "0"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--input-topic", required=True)
    parser.add_argument("--output-topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--records-per-trigger", type=int, required=True)
    parser.add_argument("--jars", required=True, help="comma-separated jars of the Kafka connector")
    return parser.parse_args()


def main() -> None:
    """Run the query."""
    arguments = _arguments()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("spark-native-count")
        .config("spark.jars", arguments.jars)
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(arguments.partitions))
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    payments = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", arguments.bootstrap_servers)
        .option("subscribe", arguments.input_topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(arguments.records_per_trigger))
        .option("kafka.max.poll.records", "50000")
        .option("kafka.max.partition.fetch.bytes", str(10 << 20))
        .option("kafka.fetch.max.wait.ms", "20")
        .load()
        .select("key", "timestamp", f.from_json(f.col("value").cast("string"), _PAYMENT).alias("payment"))
        .where("payment.amount > 0")
    )
    counts = (
        payments.withWatermark("timestamp", f"{GRACE_MS} milliseconds")
        .groupBy("key", f.window("timestamp", f"{WINDOW_MS} milliseconds"))
        .count()
    )
    start_ms = f.unix_millis(f.col("window.start"))
    query = (
        counts.select(
            f.concat("key", _long_bytes(start_ms)).alias("key"),
            _long_bytes(f.col("count")).alias("value"),
        )
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", arguments.bootstrap_servers)
        .option("topic", arguments.output_topic)
        .option("checkpointLocation", arguments.checkpoint.as_uri())
        .outputMode("update")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
