import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** The topology of tests/integration/takeover/shop.py in Java; it runs until its standard input ends. */
public final class ShopStreams {

    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<Long> LONG = Serdes.Long();

    public static void main(final String[] arguments) throws Exception {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        // Kafka Streams does not leave its group when it is closed: the group waits so long for the member to come back.
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6_000);
        try (KafkaStreams streams = new KafkaStreams(topology(arguments[2]).build(), settings)) {
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            while (System.in.read() >= 0) {
                // Whoever started it closes the pipe.
            }
        }
    }

    private static StreamsBuilder topology(final String prefix) {
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, Long> payments = builder.stream(prefix + "-payments", Consumed.with(TEXT, LONG));
        final KTable<String, String> users = builder.table(prefix + "-users", Consumed.with(TEXT, TEXT),
            Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("users"));
        final KGroupedStream<String, Long> grouped = payments.groupByKey(Grouped.with(TEXT, LONG));
        grouped.reduce(Long::sum, Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("sums")
            .withKeySerde(TEXT).withValueSerde(LONG)).toStream().to(prefix + "-sums", Produced.with(TEXT, LONG));
        grouped.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows")
                .withKeySerde(TEXT).withValueSerde(LONG))
            .toStream().to(prefix + "-windows",
                Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10_000), LONG));
        grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(4), Duration.ofSeconds(6)))
            .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("sessions")
                .withKeySerde(TEXT).withValueSerde(LONG))
            .toStream().to(prefix + "-sessions",
                Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), LONG));
        payments.leftJoin(users, (amount, user) -> user + ":" + amount, Joined.with(TEXT, LONG, TEXT))
            .to(prefix + "-joined", Produced.with(TEXT, TEXT));
        payments.groupBy((key, amount) -> "r" + amount % 3, Grouped.<String, Long>as("by-remainder")
            .withKeySerde(TEXT).withValueSerde(LONG))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("remainders")
                .withKeySerde(TEXT).withValueSerde(LONG))
            .toStream().to(prefix + "-remainders", Produced.with(TEXT, LONG));
        return builder;
    }
}
