import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.LongNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.kstream.ValueJoinerWithStreamAndMappedKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.FailOnInvalidTimestamp;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.processor.UsePartitionTimeOnInvalidTimestamp;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.test.TestRecord;
import org.rocksdb.Options;

/**
 * Runs scenarios in Kafka Streams' own TopologyTestDriver, with caching off: one JSON object a line on standard input,
 * one result a line on standard output. The format is described in tests/parity/scenario.py, which runs the same
 * scenarios through ours; the tables of functions here and there have the same names and meanings.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public class RunScenarios {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Pattern WITHOUT_HEADERS =
        Pattern.compile("-(join-store|left|right|subscription-store|SUBSCRIPTION-STATE-STORE-\\d+)-changelog$");
    private static final HexFormat HEX = HexFormat.of();
    private static final Serde<Object> KEY = Serdes.serdeFrom(new KeySerializer(), new KeyDeserializer());
    private static final Serde<Object> VALUE = Serdes.serdeFrom(new ValueSerializer(), new ValueDeserializer());

    private final Map<String, Object> named = new HashMap<>();
    private final StreamsBuilder builder = new StreamsBuilder();
    private final Topology lowLevel = new Topology();
    private boolean isLowLevel = false;

    public static void main(final String[] args) throws IOException {
        final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            }
        }
    }

    /** The result, or what stopped Kafka Streams. */
    private static ObjectNode answer(final JsonNode scenario) throws IOException {
        try {
            return run(scenario);
        } catch (final RuntimeException error) {
            final StringWriter text = new StringWriter();
            error.printStackTrace(new PrintWriter(text));
            return JSON.createObjectNode().put("error", text.toString());
        }
    }

    private static ObjectNode run(final JsonNode scenario) throws IOException {
        final RunScenarios topology = new RunScenarios();
        for (final JsonNode step : scenario.get("topology")) {
            topology.add(step);
        }
        final Path state = Files.createTempDirectory("parity");
        final Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:0");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        settings.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, StoresOfOneScenario.class);
        final List<String> rewrites = new ArrayList<>();
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, ValueSerde.class);
        for (final JsonNode setting : scenario.path("settings")) {
            switch (setting.asText()) {
                case "continue after deserialization errors" -> settings.put(
                    StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueExceptionHandler.class);
                case "continue after processing errors" -> settings.put(
                    StreamsConfig.PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG,
                    LogAndContinueProcessingExceptionHandler.class);
                case "dead letters" -> settings.put(StreamsConfig.ERRORS_DEAD_LETTER_QUEUE_TOPIC_NAME_CONFIG, "dlq");
                case "null results at most once a second" -> settings.put(
                    // The default of a cluster; the test driver's is 0.
                    StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 1000L);
                case "single store self join" -> rewrites.add(StreamsConfig.SINGLE_STORE_SELF_JOIN);
                case "reuse source topic" -> rewrites.add(StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS);
                case "merge repartition topics" -> rewrites.add(StreamsConfig.MERGE_REPARTITION_TOPICS);
                case "compare headers", "compare repartition topics" -> { }
                default -> throw new IllegalArgumentException(setting.asText());
            }
        }
        if (!rewrites.isEmpty()) {
            settings.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, String.join(",", rewrites));
        }
        final Topology built = topology.topology(settings);
        final String description = built.describe().toString();
        try (TopologyTestDriver driver = new TopologyTestDriver(built, settings)) {
            final Map<String, TestInputTopic<byte[], byte[]>> inputs = new HashMap<>();
            for (final JsonNode record : scenario.get("input")) {
                final String topic = record.get(0).asText();
                if (topic.equals("wall clock")) {
                    driver.advanceWallClockTime(Duration.ofMillis(record.get(3).asLong()));
                    continue;
                }
                inputs.computeIfAbsent(topic, name -> driver.createInputTopic(
                    name, new ByteArraySerializer(), new ByteArraySerializer()))
                    .pipeInput(new TestRecord<>(bytes(record.get(1)), bytes(record.get(2)), headers(record.path(4)),
                        record.get(3).asLong()));
            }
            final ObjectNode result = topology.result(scenario, driver);
            result.put("description", description);
            result.set("internal topics", JSON.valueToTree(InternalTopics.settings(driver)));
            return result;
        } finally {
            try (var paths = Files.walk(state)) {
                for (final Path path : paths.sorted(java.util.Comparator.reverseOrder()).toList()) {
                    Files.delete(path);
                }
            }
        }
    }

    /**
     * Stores that live as long as a scenario, with a few records in them. As an application has them, each is opened
     * with 15 threads and 4 MB of a manifest in advance, and written to a file at its end: twice what the rest costs.
     */
    public static class StoresOfOneScenario implements RocksDBConfigSetter {

        @Override
        public void setConfig(final String store, final Options options, final Map<String, Object> settings) {
            options.setMaxFileOpeningThreads(1);
            options.setManifestPreallocationSize(4 * 1024);
            options.setAvoidFlushDuringShutdown(true);
        }

        @Override
        public void close(final String store, final Options options) { }
    }

    private static RecordHeaders headers(final JsonNode texts) {
        final RecordHeaders headers = new RecordHeaders();
        texts.fields().forEachRemaining(header -> headers.add(header.getKey(), bytes(header.getValue())));
        return headers;
    }

    private static byte[] bytes(final JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private ObjectNode result(final JsonNode scenario, final TopologyTestDriver driver) {
        final ObjectNode result = JSON.createObjectNode();
        final ObjectNode topics = result.putObject("topics");
        for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
            if (topic.endsWith("-repartition") && !scenario.path("settings").toString().contains("compare repartition topics")) {
                continue;
            }
            final ArrayNode records = topics.putArray(topic);
            for (final TestRecord<byte[], byte[]> record : driver.createOutputTopic(
                topic, new ByteArrayDeserializer(), new ByteArrayDeserializer()).readRecordsToList()) {
                final ArrayNode row = records.addArray();
                row.add(hex(record.key())).add(hex(record.value())).add(record.timestamp());
                if (record.headers().iterator().hasNext() && !WITHOUT_HEADERS.matcher(topic).find()) {
                    headers(record, row.addArray());
                }
            }
        }
        final ObjectNode stores = result.putObject("stores");
        addedStores(scenario, driver, stores);
        for (final JsonNode step : scenario.get("topology")) {
            if (!step.has("store")) {
                continue;
            }
            final String name = step.get("store").asText();
            final ArrayNode entries = stores.putArray(name);
            if (step.has("history")) {
                versions(scenario, driver.getVersionedKeyValueStore(name), entries);
                continue;
            }
            final KeyValueStore<Object, ValueAndTimestamp<Object>> table = driver.getTimestampedKeyValueStore(name);
            if (table != null) {
                try (KeyValueIterator<Object, ValueAndTimestamp<Object>> all = table.all()) {
                    all.forEachRemaining(entry -> entries.addArray().add((String) entry.key)
                        .add(json(entry.value.value())).add(entry.value.timestamp()));
                }
                continue;
            }
            final SessionStore<Object, Object> sessions = driver.getSessionStore(name);
            if (sessions != null) {
                try (KeyValueIterator<Windowed<Object>, Object> all = sessions.fetch(null, null)) {
                    all.forEachRemaining(entry -> entries.addArray().add((String) entry.key.key())
                        .add(json(entry.value)).add(entry.key.window().start()).add(entry.key.window().end()));
                }
                continue;
            }
            final WindowStore<Object, ValueAndTimestamp<Object>> windows = driver.getTimestampedWindowStore(name);
            try (KeyValueIterator<Windowed<Object>, ValueAndTimestamp<Object>> all = windows.all()) {
                all.forEachRemaining(entry -> entries.addArray().add((String) entry.key.key())
                    .add(json(entry.value.value())).add(entry.value.timestamp())
                    .add(entry.key.window().start()).add(entry.key.window().end()));
            }
        }
        double dropped = 0;
        for (final var metric : driver.metrics().values()) {
            if (metric.metricName().name().equals("dropped-records-total")) {
                dropped += (Double) metric.metricValue();
            }
        }
        result.put("dropped", (long) dropped);
        return result;
    }

    /** What the store says of each key that may be in it, now and around each time of the input. */
    private static void versions(
        final JsonNode scenario, final VersionedKeyValueStore<Object, Object> store, final ArrayNode entries) {
        final TreeSet<String> keys = new TreeSet<>(List.of("x", "y", "m0", "m1", "m2"));
        final TreeSet<Long> times = new TreeSet<>();
        for (final JsonNode record : scenario.get("input")) {
            if (!record.get(1).isNull()) {
                keys.add(record.get(1).asText());
            }
            times.add(record.get(3).asLong() - 1);
            times.add(record.get(3).asLong());
        }
        times.remove(-1L);
        for (final String key : keys) {
            version(key, null, store.get(key), entries);
            times.forEach(time -> version(key, time, store.get(key, time), entries));
        }
    }

    private static void version(
        final String key, final Long time, final VersionedRecord<Object> found, final ArrayNode entries) {
        if (found != null) {
            entries.addArray().add(key).add(time).add(json(found.value())).add(found.timestamp());
        }
    }

    /** Headers; of an error only the name where the text is that of a Java exception. */
    private static void headers(final TestRecord<byte[], byte[]> record, final ArrayNode texts) {
        for (final Header header : record.headers()) {
            final boolean nameOnly = header.value() == null || header.key().matches(".*\\.(exception|message|stacktrace)");
            texts.add(nameOnly
                ? header.key() : header.key() + "=" + new String(header.value(), StandardCharsets.UTF_8));
        }
    }

    private static String hex(final byte[] data) {
        return data == null ? null : HEX.formatHex(data);
    }

    // ------------------------------------------------------------------------------------------------- operators

    private void add(final JsonNode step) {
        final String fn = step.path("fn").asText(null);
        final String as = step.path("as").asText(null);
        switch (step.get("op").asText()) {
            case "stream" -> named.put(as, step.has("pattern")
                ? builder.stream(Pattern.compile(step.get("pattern").asText()), consumed(step))
                : builder.stream(topics(step), consumed(step)));
            case "table" -> named.put(as, builder.table(
                step.get("topic").asText(), consumed(step), keyValueStore(step, VALUE)));
            case "filter" -> named.put(as, stream(step).filter((key, value) -> test(fn, key, value)));
            case "filter_not" -> named.put(as, stream(step).filterNot((key, value) -> test(fn, key, value)));
            case "map" -> named.put(as, stream(step).map((key, value) -> pair(fn, key, value)));
            case "map_values" -> named.put(as, stream(step).mapValues((key, value) -> value(fn, key, value)));
            case "flat_map" -> named.put(as, stream(step).flatMap((key, value) -> pairs(fn, key, value)));
            case "flat_map_values" -> named.put(as, stream(step).flatMapValues((key, value) -> values(fn, value)));
            case "select_key" -> named.put(as, stream(step).selectKey((key, value) -> key(fn, key, value)));
            case "peek" -> named.put(as, stream(step).peek((key, value) -> { }));
            case "branch" -> branch(step);
            case "merge" -> named.put(as, stream(step).merge((KStream<Object, Object>) get(step, "with")));
            case "repartition" -> named.put(as, stream(step).repartition(
                Repartitioned.<Object, Object>as(step.get("name").asText()).withKeySerde(KEY).withValueSerde(VALUE)
                    .withStreamPartitioner(partitioner(step))));
            case "group_by" -> named.put(as, stream(step).groupBy(
                (key, value) -> key(fn, key, value), grouped(step)));
            case "group_by_key" -> named.put(as, stream(step).groupByKey(grouped(step)));
            case "windowed_by" -> named.put(as, get(step, "on") instanceof CogroupedKStream
                ? windowedCogroup((CogroupedKStream<Object, Object>) get(step, "on"), step)
                : emitting(windowed((KGroupedStream<Object, Object>) get(step, "on"), step), step));
            case "cogroup" -> named.put(as, cogrouped(step));
            case "cogroup_aggregate" -> named.put(as, cogroupAggregated(step, fn));
            case "count", "reduce", "aggregate" -> named.put(as, aggregated(step, fn));
            case "to_stream" -> named.put(as, ((KTable<Object, Object>) get(step, "on")).toStream());
            case "to_table" -> named.put(as, stream(step).toTable(keyValueStore(step, VALUE)));
            case "join" -> named.put(as, stream(step).join((KTable<Object, Object>) get(step, "table"),
                (left, right) -> joined(fn, left, right), joinedOptions(step)));
            case "left_join" -> named.put(as, stream(step).leftJoin((KTable<Object, Object>) get(step, "table"),
                (left, right) -> joined(fn, left, right), joinedOptions(step)));
            case "stream_join" -> named.put(as, joinedStreams(step, fn));
            case "global_table" -> named.put(as, step.has("store")
                ? builder.globalTable(step.get("topic").asText(), consumed(step), keyValueStore(step, VALUE))
                // It takes no Materialized without a name.
                : builder.globalTable(step.get("topic").asText(), consumed(step)));
            case "global_join", "global_left_join" -> named.put(as, joinedWithGlobal(step, fn));
            case "table_filter", "table_filter_not", "table_map_values", "table_transform_values", "table_join",
                "table_left_join", "table_outer_join", "table_group_by", "table_count", "table_reduce",
                "table_aggregate" -> named.put(as, table(step, fn));
            case "process", "process_values", "stateful_transform_values" -> named.put(as, processed(step, fn));
            case "state_store", "add_source", "add_processor", "add_sink", "connect", "read_only_store" ->
                addByHand(step, fn);
            case "suppress" -> named.put(as, ((KTable<Object, Object>) get(step, "on")).suppress(suppressed(step)));
            case "foreign_key_join" -> named.put(as, foreignKeyJoin(step, fn));
            case "to" -> {
                final Produced<Object, Object> produced = Produced.with(KEY, VALUE)
                    .withStreamPartitioner(partitioner(step));
                if (step.has("by")) {
                    stream(step).to(new Extractor(step.get("by").asText()), produced);
                } else {
                    stream(step).to(step.get("topic").asText(), produced);
                }
            }
            default -> throw new IllegalArgumentException(step.toString());
        }
    }

    /** By the key: all partitions, none, one, or whatever its hash says. */
    private static StreamPartitioner<Object, Object> partitioner(final JsonNode step) {
        if (!step.path("partitioner").asBoolean()) {
            return null;
        }
        return (topic, key, value, partitions) -> switch (String.valueOf(key)) {
            case "a" -> Optional.of(Set.of(0, 1, 2));
            case "b" -> Optional.of(Set.of());
            case "c" -> Optional.of(Set.of(1));
            default -> Optional.empty();
        };
    }

    private static Joined<Object, Object, Object> joinedOptions(final JsonNode step) {
        Joined<Object, Object, Object> options = Joined.with(KEY, VALUE, VALUE);
        if (step.has("name")) {
            options = options.withName(step.get("name").asText());
        }
        return step.has("grace") ? options.withGracePeriod(Duration.ofMillis(step.get("grace").asLong())) : options;
    }

    private static Grouped<Object, Object> grouped(final JsonNode step) {
        final Grouped<Object, Object> grouped = Grouped.with(KEY, VALUE);
        return step.has("name") ? grouped.withName(step.get("name").asText()) : grouped;
    }

    private CogroupedKStream<Object, Object> cogrouped(final JsonNode step) {
        CogroupedKStream<Object, Object> cogrouped = null;
        for (final JsonNode input : step.get("inputs")) {
            final KGroupedStream<Object, Object> grouped = (KGroupedStream<Object, Object>) get(input, "on");
            final String fn = input.get("fn").asText();
            cogrouped = cogrouped == null
                ? grouped.cogroup((key, value, old) -> aggregate(fn, key, value, old))
                : cogrouped.cogroup(grouped, (key, value, old) -> aggregate(fn, key, value, old));
        }
        return cogrouped;
    }

    private static Object windowedCogroup(final CogroupedKStream<Object, Object> cogrouped, final JsonNode step) {
        if (step.has("gap")) {
            return cogrouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(
                Duration.ofMillis(step.get("gap").asLong()), Duration.ofMillis(step.get("grace").asLong())));
        }
        if (step.has("difference")) {
            return cogrouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(
                Duration.ofMillis(step.get("difference").asLong()), Duration.ofMillis(step.get("grace").asLong())));
        }
        return step.has("start")
            ? cogrouped.windowedBy(UnlimitedWindows.of().startOn(Instant.ofEpochMilli(step.get("start").asLong())))
            : cogrouped.windowedBy(windows(step));
    }

    private KTable<?, ?> cogroupAggregated(final JsonNode step, final String fn) {
        final Object on = get(step, "on");
        if (on instanceof SessionWindowedCogroupedKStream) {
            return ((SessionWindowedCogroupedKStream<Object, Object>) on).aggregate(
                () -> initial(fn), (key, older, newer) -> merged(fn, older, newer), sessionStore(step, VALUE));
        }
        return on instanceof TimeWindowedCogroupedKStream
            ? ((TimeWindowedCogroupedKStream<Object, Object>) on).aggregate(() -> initial(fn), windowStore(step, VALUE))
            : ((CogroupedKStream<Object, Object>) on).aggregate(() -> initial(fn), keyValueStore(step, VALUE));
    }

    private static Consumed<Object, Object> consumed(final JsonNode step) {
        final Consumed<Object, Object> consumed = Consumed.with(KEY, VALUE);
        return step.has("extractor")
            ? consumed.withTimestampExtractor(extractor(step.get("extractor").asText())) : consumed;
    }

    private static TimestampExtractor extractor(final String fn) {
        return switch (fn) {
            case "amount" -> (record, partitionTime) -> amountOrInvalid(record);
            case "amount, fails on 13" -> (record, partitionTime) ->
                failsOn13(number(record.value())) ? amountOrInvalid(record) : -1;
            case "amount or fail" -> byAmount(new FailOnInvalidTimestamp());
            case "amount or skip" -> byAmount(new LogAndSkipOnInvalidTimestamp());
            case "amount or partition time" -> byAmount(new UsePartitionTimeOnInvalidTimestamp());
            default -> throw new IllegalArgumentException(fn);
        };
    }

    // ---------------------------------------------------------------------------------------------------- tables

    private static Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> optionalStore(final JsonNode step) {
        return keyValueStore(step, VALUE);
    }

    private static Suppressed suppressed(final JsonNode step) {
        Suppressed.BufferConfig buffer = Suppressed.BufferConfig.unbounded();
        if (step.has("records")) {
            buffer = buffer.withMaxRecords(step.get("records").asLong());
        }
        if (step.has("bytes")) {
            buffer = buffer.withMaxBytes(step.get("bytes").asLong());
        }
        if (step.path("full").asText().equals("emit")) {
            buffer = buffer.emitEarlyWhenFull();
        }
        if (!step.path("logged").asBoolean(true)) {
            buffer = buffer.withLoggingDisabled();
        }
        final Suppressed suppressed = step.has("limit")
            ? Suppressed.untilTimeLimit(Duration.ofMillis(step.get("limit").asLong()), buffer)
            : Suppressed.untilWindowCloses((Suppressed.StrictBufferConfig) buffer);
        return suppressed.withName(step.get("name").asText());
    }

    private Object foreignKeyJoin(final JsonNode step, final String fn) {
        final KTable<Object, Object> table = (KTable<Object, Object>) get(step, "on");
        final KTable<Object, Object> other = (KTable<Object, Object>) get(step, "with");
        final String by = step.get("by").asText();
        final BiFunction<Object, Object, Object> extractor = (key, value) -> key(by, key, value);
        final ValueJoiner<Object, Object, Object> joiner = (left, right) -> joined(fn, left, right);
        final TableJoined<Object, Object> options = step.has("name")
            ? TableJoined.as(step.get("name").asText()) : TableJoined.with(null, null);
        return step.get("kind").asText().equals("inner")
            ? table.join(other, extractor, joiner, options, optionalStore(step))
            : table.leftJoin(other, extractor, joiner, options, optionalStore(step));
    }

    private Object table(final JsonNode step, final String fn) {
        final boolean stored = step.has("store");
        final Object on = get(step, "on");
        if (on instanceof KGroupedTable) {
            final KGroupedTable<Object, Object> grouped = (KGroupedTable<Object, Object>) on;
            return switch (step.get("op").asText()) {
                case "table_count" -> grouped.count(keyValueStore(step, Serdes.Long()));
                case "table_reduce" -> grouped.reduce((old, value) -> reduced(fn, old, value),
                    (old, value) -> subtracted(fn, null, value, old), keyValueStore(step, VALUE));
                default -> grouped.aggregate(() -> initial(fn), (key, value, old) -> aggregate(fn, key, value, old),
                    (key, value, old) -> subtracted(fn, key, value, old), keyValueStore(step, VALUE));
            };
        }
        final KTable<Object, Object> table = (KTable<Object, Object>) on;
        final KTable<Object, Object> other = step.has("with") ? (KTable<Object, Object>) get(step, "with") : null;
        final ValueTransformerWithKeySupplier<Object, Object, Object> transformer = () -> transformer(fn);
        return switch (step.get("op").asText()) {
            case "table_filter" -> stored
                ? table.filter((key, value) -> test(fn, key, value), keyValueStore(step, VALUE))
                : table.filter((key, value) -> test(fn, key, value));
            case "table_filter_not" -> stored
                ? table.filterNot((key, value) -> test(fn, key, value), keyValueStore(step, VALUE))
                : table.filterNot((key, value) -> test(fn, key, value));
            case "table_map_values" -> stored
                ? table.mapValues((key, value) -> value(fn, key, value), keyValueStore(step, VALUE))
                : table.mapValues((key, value) -> value(fn, key, value));
            case "table_transform_values" -> stored
                ? table.transformValues(transformer, keyValueStore(step, VALUE)) : table.transformValues(transformer);
            case "table_join" -> stored
                ? table.join(other, (left, right) -> joined(fn, left, right), keyValueStore(step, VALUE))
                : table.join(other, (left, right) -> joined(fn, left, right));
            case "table_left_join" -> stored
                ? table.leftJoin(other, (left, right) -> joined(fn, left, right), keyValueStore(step, VALUE))
                : table.leftJoin(other, (left, right) -> joined(fn, left, right));
            case "table_outer_join" -> stored
                ? table.outerJoin(other, (left, right) -> joined(fn, left, right), keyValueStore(step, VALUE))
                : table.outerJoin(other, (left, right) -> joined(fn, left, right));
            case "table_group_by" -> table.groupBy((key, value) -> pair(fn, key, value), Grouped.with(KEY, VALUE));
            default -> throw new IllegalArgumentException(step.toString());
        };
    }

    private static ValueTransformerWithKey<Object, Object, Object> transformer(final String fn) {
        return new ValueTransformerWithKey<>() {
            @Override
            public void init(final org.apache.kafka.streams.processor.ProcessorContext context) { }

            @Override
            public Object transform(final Object key, final Object value) {
                return value(fn, key, value);
            }

            @Override
            public void close() { }
        };
    }

    private static Object subtracted(final String fn, final Object key, final Object value, final Object old) {
        final long difference = orZero(old) - orZero(value);
        return switch (fn) {
            case "sum" -> LongNode.valueOf(difference);
            case "sum, gone at multiples of 5" ->
                Math.floorMod(difference, 5) == 0 ? null : LongNode.valueOf(difference);
            case "texts" -> TextNode.valueOf(((TextNode) old).asText() + "-" + key + ":" + number(value) + ";");
            case "latest" -> old;
            default -> throw new IllegalArgumentException(fn);
        };
    }

    /** The policies look at the record's own timestamp, and the test driver takes no negative ones. */
    private static TimestampExtractor byAmount(final TimestampExtractor policy) {
        return (record, partitionTime) -> policy.extract(
            new ConsumerRecord<>(record.topic(), record.partition(), record.offset(), amountOrInvalid(record),
                TimestampType.CREATE_TIME, 0, 0, record.key(), record.value(), record.headers(), Optional.empty()),
            partitionTime);
    }

    private static long amountOrInvalid(final ConsumerRecord<Object, Object> record) {
        final Long number = number(record.value());
        return number == null ? -1 : number;
    }

    private static List<String> topics(final JsonNode step) {
        final List<String> topics = new ArrayList<>();
        step.get("topics").forEach(topic -> topics.add(topic.asText()));
        return topics;
    }

    private Object get(final JsonNode step, final String field) {
        final Object found = named.get(step.get(field).asText());
        if (found == null) {
            throw new IllegalArgumentException(step.toString());
        }
        return found;
    }

    private KStream<Object, Object> stream(final JsonNode step) {
        return (KStream<Object, Object>) get(step, "on");
    }

    private KStream<Object, Object> joinedStreams(final JsonNode step, final String fn) {
        final KStream<Object, Object> other = (KStream<Object, Object>) get(step, "with");
        final JoinWindows windows = JoinWindows
            .ofTimeDifferenceAndGrace(Duration.ofMinutes(1), Duration.ofMillis(step.get("grace").asLong()))
            .before(Duration.ofMillis(step.get("before").asLong())).after(Duration.ofMillis(step.get("after").asLong()));
        StreamJoined<Object, Object, Object> options =
            StreamJoined.with(KEY, VALUE, VALUE).withStoreName(step.get("buffers").asText());
        final long size = step.get("before").asLong() + step.get("after").asLong();
        for (final String side : List.of("left", "right")) {
            if (step.path("places").has(side)) {
                final WindowBytesStoreSupplier own = windows(step.get("places").get(side).asText(),
                    step.get("buffers").asText() + "-" + side, size + step.get("grace").asLong(), size, true);
                options = side.equals("left") ? options.withThisStoreSupplier(own) : options.withOtherStoreSupplier(own);
            }
        }
        if (!step.path("logged").asBoolean(true)) {
            options = options.withLoggingDisabled();
        }
        return switch (step.get("kind").asText()) {
            case "inner" -> stream(step).join(other, (left, right) -> joined(fn, left, right), windows, options);
            case "left" -> stream(step).leftJoin(other, (left, right) -> joined(fn, left, right), windows, options);
            default -> stream(step).outerJoin(other, (left, right) -> joined(fn, left, right), windows, options);
        };
    }

    private KStream<?, ?> joinedWithGlobal(final JsonNode step, final String fn) {
        final GlobalKTable<Object, Object> table = (GlobalKTable<Object, Object>) get(step, "table");
        final KeyValueMapper<Object, Object, Object> selector =
            (key, value) -> key(step.get("selector").asText(), key, value);
        final boolean inner = step.get("op").asText().equals("global_join");
        switch (step.path("takes").asText()) {
            case "key" -> {
                final ValueJoinerWithKey<Object, Object, Object, Object> joiner =
                    (key, left, right) -> TextNode.valueOf(key + "/" + json(joined(fn, left, right)));
                return inner ? stream(step).join(table, selector, joiner) : stream(step).leftJoin(table, selector, joiner);
            }
            case "both keys" -> {
                final ValueJoinerWithStreamAndMappedKey<Object, Object, Object, Object, Object> joiner =
                    (key, selected, left, right) ->
                        TextNode.valueOf(key + "/" + selected + "/" + json(joined(fn, left, right)));
                return inner ? stream(step).join(table, selector, joiner) : stream(step).leftJoin(table, selector, joiner);
            }
            default -> {
                final ValueJoiner<Object, Object, Object> joiner = (left, right) -> joined(fn, left, right);
                return inner ? stream(step).join(table, selector, joiner) : stream(step).leftJoin(table, selector, joiner);
            }
        }
    }

    private static Object emitting(final Object windowed, final JsonNode step) {
        if (!step.path("emit").asText().equals("close")) {
            return windowed;
        }
        return windowed instanceof SessionWindowedKStream
            ? ((SessionWindowedKStream<Object, Object>) windowed).emitStrategy(EmitStrategy.onWindowClose())
            : ((TimeWindowedKStream<Object, Object>) windowed).emitStrategy(EmitStrategy.onWindowClose());
    }

    private static Object windowed(final KGroupedStream<Object, Object> grouped, final JsonNode step) {
        if (step.has("gap")) {
            return grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(
                Duration.ofMillis(step.get("gap").asLong()), Duration.ofMillis(step.get("grace").asLong())));
        }
        if (step.has("difference")) {
            return grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(
                Duration.ofMillis(step.get("difference").asLong()), Duration.ofMillis(step.get("grace").asLong())));
        }
        if (step.has("start")) {
            return grouped.windowedBy(UnlimitedWindows.of().startOn(Instant.ofEpochMilli(step.get("start").asLong())));
        }
        return grouped.windowedBy(windows(step));
    }

    private static TimeWindows windows(final JsonNode step) {
        final TimeWindows windows = TimeWindows.ofSizeAndGrace(
            Duration.ofMillis(step.get("size").asLong()), Duration.ofMillis(step.get("grace").asLong()));
        return step.has("advance") ? windows.advanceBy(Duration.ofMillis(step.get("advance").asLong())) : windows;
    }

    private static <V> Materialized<Object, V, KeyValueStore<Bytes, byte[]>> keyValueStore(
        final JsonNode step, final Serde<V> serde) {
        if (step.has("history")) {
            final VersionedBytesStoreSupplier store = step.has("segment_interval")
                ? Stores.persistentVersionedKeyValueStore(step.get("store").asText(),
                    Duration.ofMillis(step.get("history").asLong()),
                    Duration.ofMillis(step.get("segment_interval").asLong()))
                : Stores.persistentVersionedKeyValueStore(step.get("store").asText(),
                    Duration.ofMillis(step.get("history").asLong()));
            return Materialized.<Object, V>as(store).withKeySerde(KEY).withValueSerde(serde);
        }
        if (!step.has("store")) {
            return Materialized.with(KEY, serde);
        }
        final String name = step.get("store").asText();
        final String place = step.path("place").asText();
        final Materialized<Object, V, KeyValueStore<Bytes, byte[]>> store = !step.has("place")
            ? Materialized.<Object, V, KeyValueStore<Bytes, byte[]>>as(name)
            : Materialized.<Object, V>as(place.startsWith("lru ")
                ? Stores.lruMap(name, Integer.parseInt(place.substring(4)))
                : place.equals("memory")
                    ? Stores.inMemoryKeyValueStore(name) : Stores.persistentTimestampedKeyValueStore(name));
        return logged(step, store.withKeySerde(KEY).withValueSerde(serde));
    }

    private static <V, S extends StateStore> Materialized<Object, V, S> logged(
        final JsonNode step, final Materialized<Object, V, S> store) {
        return step.path("logged").asBoolean(true) ? store : store.withLoggingDisabled();
    }

    private static WindowBytesStoreSupplier windows(
        final String place, final String name, final long retention, final long size, final boolean duplicates) {
        final Duration kept = Duration.ofMillis(retention);
        final Duration long_ = Duration.ofMillis(size);
        if (place.equals("memory")) {
            return Stores.inMemoryWindowStore(name, kept, long_, duplicates);
        }
        return duplicates ? Stores.persistentWindowStore(name, kept, long_, true)
            : Stores.persistentTimestampedWindowStore(name, kept, long_, false);
    }

    private static <V> Materialized<Object, V, WindowStore<Bytes, byte[]>> windowStore(
        final JsonNode step, final Serde<V> serde) {
        if (step.has("place")) {
            return logged(step, Materialized.<Object, V>as(windows(step.get("place").asText(),
                step.get("store").asText(), step.get("retention").asLong(), step.get("size").asLong(), false))
                .withKeySerde(KEY).withValueSerde(serde));
        }
        final Materialized<Object, V, WindowStore<Bytes, byte[]>> store = logged(step,
            step.has("store")
                ? Materialized.<Object, V, WindowStore<Bytes, byte[]>>as(step.get("store").asText())
                    .withKeySerde(KEY).withValueSerde(serde)
                : Materialized.with(KEY, serde));
        return step.has("retention") ? store.withRetention(Duration.ofMillis(step.get("retention").asLong())) : store;
    }

    private static <V> Materialized<Object, V, SessionStore<Bytes, byte[]>> sessionStore(
        final JsonNode step, final Serde<V> serde) {
        if (step.has("place")) {
            final String name = step.get("store").asText();
            final Duration retention = Duration.ofMillis(step.get("retention").asLong());
            return logged(step, Materialized.<Object, V>as(step.get("place").asText().equals("memory")
                ? Stores.inMemorySessionStore(name, retention) : Stores.persistentSessionStore(name, retention))
                .withKeySerde(KEY).withValueSerde(serde));
        }
        final Materialized<Object, V, SessionStore<Bytes, byte[]>> store = logged(step,
            step.has("store")
                ? Materialized.<Object, V, SessionStore<Bytes, byte[]>>as(step.get("store").asText())
                    .withKeySerde(KEY).withValueSerde(serde)
                : Materialized.with(KEY, serde));
        return step.has("retention") ? store.withRetention(Duration.ofMillis(step.get("retention").asLong())) : store;
    }

    private void branch(final JsonNode step) {
        final BranchedKStream<Object, Object> split = stream(step).split();
        for (final JsonNode part : step.get("branches")) {
            split.branch((key, value) -> test(part.get("fn").asText(), key, value),
                Branched.withConsumer(stream -> named.put(part.get("as").asText(), stream)));
        }
        if (step.has("default")) {
            split.defaultBranch(Branched.withConsumer(stream -> named.put(step.get("default").asText(), stream)));
        } else {
            split.noDefaultBranch();
        }
    }

    private KTable<?, ?> aggregated(final JsonNode step, final String fn) {
        final String op = step.get("op").asText();
        if (get(step, "on") instanceof SessionWindowedKStream) {
            final SessionWindowedKStream<Object, Object> grouped = (SessionWindowedKStream<Object, Object>) get(step, "on");
            return switch (op) {
                case "count" -> grouped.count(sessionStore(step, Serdes.Long()));
                case "reduce" -> grouped.reduce((old, value) -> reduced(fn, old, value), sessionStore(step, VALUE));
                default -> grouped.aggregate(() -> initial(fn),
                    (key, value, old) -> aggregate(fn, key, value, old),
                    (key, older, newer) -> merged(fn, older, newer), sessionStore(step, VALUE));
            };
        }
        if (get(step, "on") instanceof TimeWindowedKStream) {
            final TimeWindowedKStream<Object, Object> grouped = (TimeWindowedKStream<Object, Object>) get(step, "on");
            return switch (op) {
                case "count" -> grouped.count(windowStore(step, Serdes.Long()));
                case "reduce" -> grouped.reduce((old, value) -> reduced(fn, old, value), windowStore(step, VALUE));
                default -> grouped.aggregate(() -> initial(fn),
                    (key, value, old) -> aggregate(fn, key, value, old), windowStore(step, VALUE));
            };
        }
        final KGroupedStream<Object, Object> grouped = (KGroupedStream<Object, Object>) get(step, "on");
        return switch (op) {
            case "count" -> grouped.count(keyValueStore(step, Serdes.Long()));
            case "reduce" -> grouped.reduce((old, value) -> reduced(fn, old, value), keyValueStore(step, VALUE));
            default -> grouped.aggregate(() -> initial(fn),
                (key, value, old) -> aggregate(fn, key, value, old), keyValueStore(step, VALUE));
        };
    }

    // ------------------------------------------------------------------------------------------------- functions

    private static Long number(final Object value) {
        if (value instanceof Long) {
            return (Long) value;
        }
        if (value instanceof JsonNode node) {
            final JsonNode amount = node.isObject() ? node.path("amount") : node;
            return amount.isIntegralNumber() ? amount.asLong() : null;
        }
        return null;
    }

    private static long orZero(final Object value) {
        final Long number = number(value);
        return number == null ? 0 : number;
    }

    private static Object user(final Object value) {
        return value instanceof ObjectNode node && node.path("user").isTextual() ? node.get("user").asText() : null;
    }

    private static boolean test(final String fn, final Object key, final Object value) {
        final Long number = number(value);
        return switch (fn) {
            case "amount>10" -> number != null && number > 10;
            case "amount even" -> number != null && Math.floorMod(number, 2) == 0;
            case "has amount" -> number != null;
            case "key==a" -> "a".equals(key);
            case "has key" -> key != null;
            case "always" -> true;
            case "fails on 13" -> failsOn13(number);
            default -> throw new IllegalArgumentException(fn);
        };
    }

    private static boolean failsOn13(final Long number) {
        if (number != null && number == 13) {
            throw new IllegalStateException("13");
        }
        return true;
    }

    private static Object key(final String fn, final Object key, final Object value) {
        final Long number = number(value);
        return switch (fn) {
            case "user" -> user(value);
            case "amount mod 3" -> number == null ? null : "m" + Math.floorMod(number, 3);
            case "user, fails on 13" -> failsOn13(number) ? user(value) : null;
            case "key@start" -> ((Windowed<Object>) key).key() + "@" + ((Windowed<Object>) key).window().start();
            case "same", "key" -> key;
            case "fails on 13" -> failsOn13(number) ? key : null;
            default -> throw new IllegalArgumentException(fn);
        };
    }

    private static Object value(final String fn, final Object key, final Object value) {
        final Long number = number(value);
        return switch (fn) {
            case "amount" -> number == null ? null : LongNode.valueOf(number);
            case "amount+1" -> number == null ? null : LongNode.valueOf(number + 1);
            case "null if odd" -> number == null || Math.floorMod(number, 2) == 1 ? null : value;
            case "amount or -1" -> LongNode.valueOf(number == null ? -1 : number);
            case "key" -> key == null ? null : TextNode.valueOf((String) key);
            case "fails on 13" -> failsOn13(number) ? value : null;
            default -> throw new IllegalArgumentException(fn);
        };
    }

    private static KeyValue<Object, Object> pair(final String fn, final Object key, final Object value) {
        return switch (fn) {
            case "user, amount" -> KeyValue.pair(user(value), value("amount", key, value));
            case "amount mod 3, value" -> KeyValue.pair(key("amount mod 3", key, value), value);
            case "key or null, amount" -> KeyValue.pair(
                Math.floorMod(orZero(value), 2) == 1 ? null : key, value("amount", key, value));
            default -> throw new IllegalArgumentException(fn);
        };
    }

    private static List<Object> values(final String fn, final Object value) {
        if (!fn.equals("amount mod 3 times")) {
            throw new IllegalArgumentException(fn);
        }
        final List<Object> values = new ArrayList<>();
        for (long times = 0; times < Math.floorMod(orZero(value), 3); times++) {
            values.add(LongNode.valueOf(orZero(value) + 100 * times));
        }
        return values;
    }

    private static List<KeyValue<Object, Object>> pairs(final String fn, final Object key, final Object value) {
        if (!fn.equals("amount mod 3 keys")) {
            throw new IllegalArgumentException(fn);
        }
        final List<KeyValue<Object, Object>> pairs = new ArrayList<>();
        for (long times = 0; times < Math.floorMod(orZero(value), 3); times++) {
            pairs.add(KeyValue.pair((key == null ? "" : key) + "x" + times, LongNode.valueOf(orZero(value) + times)));
        }
        return pairs;
    }

    private static Object reduced(final String fn, final Object old, final Object value) {
        final long sum = orZero(old) + orZero(value);
        return switch (fn) {
            case "latest" -> value;
            case "sum" -> LongNode.valueOf(sum);
            case "sum, gone at multiples of 5" -> Math.floorMod(sum, 5) == 0 ? null : LongNode.valueOf(sum);
            default -> throw new IllegalArgumentException(fn);
        };
    }

    private static Object initial(final String fn) {
        return switch (fn) {
            case "max", "min", "first", "last" -> null;
            case "texts", "notes" -> TextNode.valueOf("");
            default -> LongNode.valueOf(0);
        };
    }

    private static Object aggregate(final String fn, final Object key, final Object value, final Object old) {
        final Long number = number(value);
        final Long before = number(old);
        return switch (fn) {
            case "sum" -> LongNode.valueOf(orZero(old) + orZero(value));
            case "sum, gone at multiples of 5" -> reduced(fn, old, value);
            case "max" -> number == null || before != null && before >= number ? old : LongNode.valueOf(number);
            case "min" -> number == null || before != null && before <= number ? old : LongNode.valueOf(number);
            case "first" -> number == null || before != null ? old : LongNode.valueOf(number);
            case "last" -> number == null ? old : LongNode.valueOf(number);
            case "texts" -> TextNode.valueOf(((TextNode) old).asText() + key + ":" + number + ";");
            case "notes" -> TextNode.valueOf(((TextNode) old).asText() + key + "=" + number + ",");
            case "sum, fails on 13" -> failsOn13(number) ? LongNode.valueOf(orZero(old) + orZero(value)) : null;
            default -> throw new IllegalArgumentException(fn);
        };
    }

    private static Object merged(final String fn, final Object older, final Object newer) {
        return switch (fn) {
            case "texts", "notes" -> TextNode.valueOf("(" + ((TextNode) older).asText() + ((TextNode) newer).asText() + ")");
            default -> aggregate(fn, null, newer, older);
        };
    }

    private static Object joined(final String fn, final Object left, final Object right) {
        return switch (fn) {
            case "left|right" -> TextNode.valueOf(number(left) + "|" + number(right));
            case "left-right" -> LongNode.valueOf(orZero(left) - orZero(right));
            case "null if even" -> Math.floorMod(orZero(left), 2) == 0 ? null : left;
            default -> throw new IllegalArgumentException(fn);
        };
    }

    // ---------------------------------------------------------------------------------------------------- serdes

    private static String json(final Object value) {
        try {
            return JSON.writeValueAsString(value);
        } catch (final IOException error) {
            throw new IllegalStateException(error);
        }
    }

    // ------------------------------------------------------------------------------------------------ processors

    private Topology topology(final Properties settings) {
        return isLowLevel ? lowLevel : builder.build(settings);
    }

    private static String[] texts(final JsonNode texts) {
        final List<String> found = new ArrayList<>();
        texts.forEach(text -> found.add(text.asText()));
        return found.toArray(new String[0]);
    }

    private Object processed(final JsonNode step, final String fn) {
        final String[] stores = texts(step.path("stores"));
        return switch (step.get("op").asText()) {
            case "process" -> stream(step).process(() -> processor(fn), stores);
            case "process_values" -> stream(step).processValues(() -> new FixedKey(fn), stores);
            default -> step.has("store")
                ? ((KTable<Object, Object>) get(step, "on")).transformValues(
                    StatefulTransformer::new, keyValueStore(step, VALUE), stores)
                : ((KTable<Object, Object>) get(step, "on")).transformValues(StatefulTransformer::new, stores);
        };
    }

    private void addByHand(final JsonNode step, final String fn) {
        final String name = step.path("name").asText(null);
        final String[] parents = texts(step.path("parents"));
        switch (step.get("op").asText()) {
            case "add_source" -> {
                isLowLevel = true;
                if (step.has("pattern")) {
                    lowLevel.addSource(name, new KeyDeserializer(), new ValueDeserializer(),
                        Pattern.compile(step.get("pattern").asText()));
                } else {
                    lowLevel.addSource(name, new KeyDeserializer(), new ValueDeserializer(), texts(step.get("topics")));
                }
            }
            case "read_only_store" -> lowLevel.addReadOnlyStateStore(storeBuilder(step), step.get("source").asText(),
                new KeyDeserializer(), new ValueDeserializer(), step.get("topic").asText(), name,
                (ProcessorSupplier) () -> processor(fn));
            case "add_processor" -> lowLevel.addProcessor(name, () -> processor(fn), parents);
            case "add_sink" -> {
                if (step.has("by")) {
                    lowLevel.addSink(name, new Extractor(step.get("by").asText()), new KeySerializer(),
                        new ValueSerializer(), parents);
                } else {
                    lowLevel.addSink(name, step.get("topic").asText(), new KeySerializer(), new ValueSerializer(),
                        partitioner(step), parents);
                }
            }
            case "connect" -> lowLevel.connectProcessorAndStateStores(name, texts(step.get("stores")));
            default -> {
                if (isLowLevel) {
                    lowLevel.addStateStore(storeBuilder(step), texts(step.path("processors")));
                } else {
                    builder.addStateStore(storeBuilder(step));
                }
            }
        }
    }

    private static StoreBuilder<?> storeBuilder(final JsonNode step) {
        final String name = step.get("state").asText();
        final Duration retention = Duration.ofMillis(step.path("retention").asLong());
        final Duration size = Duration.ofMillis(step.path("size").asLong());
        final String place = step.path("place").asText("disk");
        final StoreBuilder<?> made = switch (step.get("kind").asText()) {
            case "key-value" -> Stores.keyValueStoreBuilder(
                keyValues(place, name, Stores.persistentKeyValueStore(name)), KEY, VALUE);
            case "timestamped" -> Stores.timestampedKeyValueStoreBuilder(
                keyValues(place, name, Stores.persistentTimestampedKeyValueStore(name)), KEY, VALUE);
            case "window" -> Stores.windowStoreBuilder(place.equals("memory")
                ? Stores.inMemoryWindowStore(name, retention, size, false)
                : Stores.persistentWindowStore(name, retention, size, false), KEY, VALUE);
            case "timestamped window" -> Stores.timestampedWindowStoreBuilder(place.equals("memory")
                ? Stores.inMemoryWindowStore(name, retention, size, false)
                : Stores.persistentTimestampedWindowStore(name, retention, size, false), KEY, VALUE);
            case "versioned" -> Stores.versionedKeyValueStoreBuilder(step.has("segment_interval")
                ? Stores.persistentVersionedKeyValueStore(
                    name, retention, Duration.ofMillis(step.get("segment_interval").asLong()))
                : Stores.persistentVersionedKeyValueStore(name, retention), KEY, VALUE);
            default -> Stores.sessionStoreBuilder(place.equals("memory")
                ? Stores.inMemorySessionStore(name, retention)
                : Stores.persistentSessionStore(name, retention), KEY, VALUE);
        };
        return step.path("logged").asBoolean(true) ? made : made.withLoggingDisabled();
    }

    private static KeyValueBytesStoreSupplier keyValues(
        final String place, final String name, final KeyValueBytesStoreSupplier onDisk) {
        if (place.startsWith("lru ")) {
            return Stores.lruMap(name, Integer.parseInt(place.substring(4)));
        }
        return place.equals("memory") ? Stores.inMemoryKeyValueStore(name) : onDisk;
    }

    private static void addedStores(final JsonNode scenario, final TopologyTestDriver driver, final ObjectNode stores) {
        for (final JsonNode step : scenario.get("topology")) {
            if (!step.has("state")) {
                continue;
            }
            final String name = step.get("state").asText();
            final ArrayNode entries = stores.putArray(name);
            switch (step.get("kind").asText()) {
                case "versioned" -> versions(scenario, driver.getVersionedKeyValueStore(name), entries);
                case "key-value" -> {
                    try (KeyValueIterator<Object, Object> all = driver.<Object, Object>getKeyValueStore(name).all()) {
                        all.forEachRemaining(e -> entries.addArray().add((String) e.key).add(json(e.value)));
                    }
                }
                case "timestamped" -> {
                    try (KeyValueIterator<Object, ValueAndTimestamp<Object>> all =
                            driver.<Object, Object>getTimestampedKeyValueStore(name).all()) {
                        all.forEachRemaining(e -> entries.addArray().add((String) e.key).add(json(e.value.value()))
                            .add(e.value.timestamp()));
                    }
                }
                case "window" -> {
                    try (KeyValueIterator<Windowed<Object>, Object> all =
                            driver.<Object, Object>getWindowStore(name).all()) {
                        all.forEachRemaining(e -> entries.addArray().add((String) e.key.key()).add(json(e.value))
                            .add(e.key.window().start()).add(e.key.window().end()));
                    }
                }
                case "timestamped window" -> {
                    try (KeyValueIterator<Windowed<Object>, ValueAndTimestamp<Object>> all =
                            driver.<Object, Object>getTimestampedWindowStore(name).all()) {
                        all.forEachRemaining(e -> entries.addArray().add((String) e.key.key())
                            .add(json(e.value.value())).add(e.value.timestamp())
                            .add(e.key.window().start()).add(e.key.window().end()));
                    }
                }
                default -> {
                    try (KeyValueIterator<Windowed<Object>, Object> all =
                            driver.<Object, Object>getSessionStore(name).fetch(null, null)) {
                        all.forEachRemaining(e -> entries.addArray().add((String) e.key.key()).add(json(e.value))
                            .add(e.key.window().start()).add(e.key.window().end()));
                    }
                }
            }
        }
    }

    private static TextNode text(final Object text) {
        return TextNode.valueOf(String.valueOf(text));
    }

    private static Processor<Object, Object, Object, Object> processor(final String fn) {
        return switch (fn) {
            case "deduplicate" -> new Deduplicate();
            case "total and latest" -> new TotalAndLatest();
            case "emit by stream time" -> new EmitByStreamTime();
            case "two punctuations" -> new TwoPunctuations();
            case "schedule in process" -> new ScheduleInProcess();
            case "emit by wall clock" -> new EmitByWallClock();
            case "start times" -> new StartTimes();
            case "header" -> new AddHeader();
            case "to children" -> new ToChildren();
            case "to both and one" -> new ToBothAndOne();
            case "write shared" -> new WriteShared();
            case "read shared" -> new ReadShared();
            case "look up" -> new LookUp();
            case "fails on 13" -> new FailsOn13();
            case "fails first" -> new FailsFirst();
            case "punctuation fails" -> new PunctuationFails();
            case "scan" -> new Scan();
            case "windows" -> new Windows();
            case "sessions" -> new Sessions();
            case "stamped scan" -> new StampedScan();
            case "stamped windows" -> new StampedWindows();
            case "history" -> new History();
            case "look up version" -> new LookUpVersion();
            case "metadata" -> new Metadata();
            case "pass" -> new Pass();
            default -> throw new IllegalArgumentException(fn);
        };
    }

    private abstract static class Base extends ContextualProcessor<Object, Object, Object, Object> {
        KeyValueStore<Object, Object> store(final String name) {
            return context().getStateStore(name);
        }

        Record<Object, Object> made(final Object key, final Object value, final long timestamp) {
            return new Record<>(key, value, timestamp);
        }
    }

    private static final class Pass extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            context().forward(record);
        }
    }

    private static final class Deduplicate extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final WindowStore<Object, Object> seen = context().getStateStore("seen");
            try (WindowStoreIterator<Object> found =
                    seen.fetch(record.key(), record.timestamp() - 20, record.timestamp() + 20)) {
                if (found.hasNext()) {
                    return;
                }
            }
            seen.put(record.key(), record.value(), record.timestamp());
            context().forward(record);
        }
    }

    private static final class TotalAndLatest extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final KeyValueStore<Object, Object> totals = store("totals");
            final KeyValueStore<Object, ValueAndTimestamp<Object>> latest = context().getStateStore("latest");
            final long total = orZero(totals.get(record.key())) + orZero(record.value());
            totals.put(record.key(), Math.floorMod(total, 5) == 0 ? null : LongNode.valueOf(total));
            final ValueAndTimestamp<Object> before = latest.get(record.key());
            latest.put(record.key(), record.value() == null
                ? null : ValueAndTimestamp.make(LongNode.valueOf(total), record.timestamp() + 1));
            context().forward(record.withValue(LongNode.valueOf(total)));
            context().forward(record.withValue(text(before == null ? "none" : before.timestamp())).withTimestamp(
                record.timestamp() + 1000));
        }
    }

    private static class EmitByStreamTime extends Base {
        @Override
        public void init(final ProcessorContext<Object, Object> context) {
            super.init(context);
            context.schedule(Duration.ofMillis(10), PunctuationType.STREAM_TIME, this::emit);
        }

        private void emit(final long now) {
            try (KeyValueIterator<Object, Object> all = store("totals").all()) {
                while (all.hasNext()) {
                    final KeyValue<Object, Object> entry = all.next();
                    context().forward(made(entry.key, entry.value, now));
                }
            }
            store("totals").put("emitted", LongNode.valueOf(now));
        }

        @Override
        public void process(final Record<Object, Object> record) {
            store("totals").put(record.key(),
                LongNode.valueOf(orZero(store("totals").get(record.key())) + orZero(record.value())));
            context().forward(record);
        }
    }

    private static final class TwoPunctuations extends Base {
        private Cancellable second;

        @Override
        public void init(final ProcessorContext<Object, Object> context) {
            super.init(context);
            for (int interval = 10; interval <= 30; interval += 10) {
                final int own = interval;
                final Cancellable made = context.schedule(Duration.ofMillis(interval), PunctuationType.STREAM_TIME,
                    now -> emit(own, now));
                second = interval == 20 ? made : second;
            }
        }

        private void emit(final int interval, final long now) {
            context().forward(made("every " + interval, LongNode.valueOf(context().currentStreamTimeMs()), now));
            if (interval == 20 && now >= 60) {
                second.cancel();
            }
        }

        @Override
        public void process(final Record<Object, Object> record) {
            context().forward(record.withValue(LongNode.valueOf(context().currentStreamTimeMs())));
        }
    }

    private static final class ScheduleInProcess extends Base {
        private Cancellable scheduled;

        @Override
        public void process(final Record<Object, Object> record) {
            context().forward(record);
            if (orZero(record.value()) == 7) {
                final long number = record.timestamp();
                scheduled = context().schedule(Duration.ofMillis(15), PunctuationType.STREAM_TIME,
                    now -> context().forward(made("since " + number, LongNode.valueOf(now), now)));
            }
            if (orZero(record.value()) == 8 && scheduled != null) {
                scheduled.cancel();
            }
        }
    }

    private static final class EmitByWallClock extends Base {
        private long start;
        private long count;

        @Override
        public void init(final ProcessorContext<Object, Object> context) {
            super.init(context);
            start = context.currentSystemTimeMs();
            context.schedule(Duration.ofMillis(100), PunctuationType.WALL_CLOCK_TIME, now -> {
                context().forward(made("after", LongNode.valueOf(now - start), 5));
                store("totals").put("punctuated", LongNode.valueOf(++count));
            });
        }

        @Override
        public void process(final Record<Object, Object> record) {
            store("totals").put(record.key(), record.value());
            context().forward(record);
        }
    }

    private static final class StartTimes extends Base {
        @Override
        public void init(final ProcessorContext<Object, Object> context) {
            super.init(context);
            context.schedule(Instant.ofEpochMilli(25), Duration.ofMillis(10), PunctuationType.STREAM_TIME,
                now -> context().forward(made("from 25", LongNode.valueOf(now), now)));
            final long start = context.currentSystemTimeMs();
            context.schedule(Instant.ofEpochMilli(start - 30), Duration.ofMillis(100), PunctuationType.WALL_CLOCK_TIME,
                now -> context().forward(made("anchored", LongNode.valueOf(now - start), 1)));
            context.schedule(Instant.ofEpochMilli(start + 250), Duration.ofMillis(100), PunctuationType.WALL_CLOCK_TIME,
                now -> context().forward(made("later", LongNode.valueOf(now - start), 1)));
        }

        @Override
        public void process(final Record<Object, Object> record) {
            context().forward(record);
            if (orZero(record.value()) == 7) {
                context().schedule(Instant.ofEpochMilli(3), Duration.ofMillis(10), PunctuationType.STREAM_TIME,
                    now -> context().forward(made("from 3", LongNode.valueOf(now), now)));
            }
        }
    }

    private static final class AddHeader extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final org.apache.kafka.common.header.internals.RecordHeaders headers =
                new org.apache.kafka.common.header.internals.RecordHeaders(record.headers());
            headers.add("seen", String.valueOf(record.key()).getBytes(StandardCharsets.UTF_8));
            context().forward(record.withHeaders(headers).withTimestamp(record.timestamp() + 1));
        }
    }

    private static final class ToChildren extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final long amount = orZero(record.value());
            context().forward(record, Math.floorMod(amount, 2) == 0 ? "even" : "odd");
            if (Math.floorMod(amount, 10) == 0) {
                context().forward(record.withKey("all"));
            }
            if (amount == 13) {
                context().forward(record, "missing");
            }
        }
    }

    private static final class ToBothAndOne extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            context().forward(record.withKey("first"));
            context().forward(record.withKey("second"), "odd");
            context().forward(record.withKey("third"), "even");
            context().forward(record.withKey("fourth"));
        }
    }

    private static final class WriteShared extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            store("shared").put(record.key(), LongNode.valueOf(orZero(record.value())));
            context().forward(record.withValue(LongNode.valueOf(1)));
            store("shared").put(record.key(), LongNode.valueOf(orZero(record.value()) + 100));
            context().forward(record.withValue(LongNode.valueOf(2)));
            context().forward(record.withKey("back").withValue(store("shared").get("reader")));
        }
    }

    private static final class ReadShared extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            context().forward(record.withValue(
                text(number(record.value()) + "|" + number(store("shared").get(record.key())))));
            store("shared").put("reader", LongNode.valueOf(orZero(store("shared").get("reader")) + 1));
        }
    }

    private static final class LookUp extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final KeyValueStore<Object, ValueAndTimestamp<Object>> table = context().getStateStore("table-store");
            final ValueAndTimestamp<Object> found = record.key() == null ? null : table.get(record.key());
            context().forward(record.withValue(
                text(found == null ? "none" : number(found.value()) + "@" + found.timestamp())));
        }
    }

    private static final class FailsOn13 extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            store("totals").put(record.key(), record.value());
            context().forward(record);
            failsOn13(number(record.value()));
            context().forward(record.withKey("again"));
        }
    }

    private static final class FailsFirst extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            failsOn13(number(record.value()));
            context().forward(record);
        }
    }

    private static final class PunctuationFails extends Base {
        @Override
        public void init(final ProcessorContext<Object, Object> context) {
            super.init(context);
            context.schedule(Duration.ofMillis(10), PunctuationType.STREAM_TIME, now -> {
                context().forward(made("before", LongNode.valueOf(now), now));
                store("totals").put("punctuated", LongNode.valueOf(now));
                if (now >= 30 && now < 60) {
                    throw new IllegalStateException("punctuation");
                }
                context().forward(made("behind", LongNode.valueOf(13), now));
            });
        }

        @Override
        public void process(final Record<Object, Object> record) {
            context().forward(record);
        }
    }

    private static String entries(final KeyValueIterator<Object, Object> iterator) {
        final StringBuilder text = new StringBuilder();
        try (iterator) {
            iterator.forEachRemaining(entry -> text.append(entry.key).append('=').append(number(entry.value)).append(';'));
        }
        return text.toString();
    }

    private static final class Scan extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final KeyValueStore<Object, Object> totals = store("totals");
            final Object absent = totals.putIfAbsent(record.key(), record.value());
            context().forward(record.withKey("absent").withValue(text(number(absent))));
            context().forward(record.withKey("range").withValue(text(entries(totals.range("a", "b")))));
            context().forward(record.withKey("to").withValue(text(entries(totals.range(null, "aa")))));
            context().forward(record.withKey("reverse").withValue(text(entries(totals.reverseRange("a", "b")))));
            context().forward(record.withKey("all").withValue(text(entries(totals.all()))));
            context().forward(record.withKey("reverse all").withValue(text(entries(totals.reverseAll()))));
            context().forward(record.withKey("prefix").withValue(
                text(entries(totals.prefixScan("a", Serdes.String().serializer())))));
            if (orZero(record.value()) == 7) {
                context().forward(record.withKey("deleted").withValue(text(number(totals.delete(record.key())))));
                totals.putAll(List.of(KeyValue.pair("aa", LongNode.valueOf(70)), KeyValue.pair("c", LongNode.valueOf(71))));
            }
        }
    }

    private static String windowed(final KeyValueIterator<Windowed<Object>, Object> iterator) {
        final StringBuilder text = new StringBuilder();
        try (iterator) {
            iterator.forEachRemaining(entry -> text.append(entry.key.key()).append('@').append(entry.key.window().start())
                .append('-').append(entry.key.window().end()).append('=').append(number(entry.value)).append(';'));
        }
        return text.toString();
    }

    private static final class Windows extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final WindowStore<Object, Object> windows = context().getStateStore("windows");
            final long start = record.timestamp() - Math.floorMod(record.timestamp(), 10);
            final Object before = windows.fetch(record.key(), start);
            windows.put(record.key(), orZero(record.value()) == 7
                ? null : LongNode.valueOf(orZero(before) + orZero(record.value())), start);
            context().forward(record.withKey("before").withValue(text(number(before))));
            final StringBuilder backward = new StringBuilder();
            try (WindowStoreIterator<Object> found = windows.backwardFetch(record.key(), start - 30, start + 10)) {
                found.forEachRemaining(entry -> backward.append(entry.key).append('=').append(number(entry.value)).append(';'));
            }
            context().forward(record.withKey("backward").withValue(text(backward)));
            context().forward(record.withKey("keys").withValue(text(windowed(windows.fetch("a", "aa", 0, start)))));
            context().forward(record.withKey("times").withValue(text(windowed(windows.fetchAll(start - 20, start)))));
            context().forward(record.withKey("all").withValue(text(windowed(windows.all()))));
        }
    }

    private static final class Sessions extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final SessionStore<Object, Object> sessions = context().getStateStore("sessions");
            final long at = record.timestamp();
            final StringBuilder text = new StringBuilder();
            long start = at;
            long end = at;
            long sum = orZero(record.value());
            final List<Windowed<Object>> merged = new ArrayList<>();
            try (KeyValueIterator<Windowed<Object>, Object> found =
                    sessions.findSessions(record.key(), at - 10, at + 10)) {
                while (found.hasNext()) {
                    final KeyValue<Windowed<Object>, Object> session = found.next();
                    start = Math.min(start, session.key.window().start());
                    end = Math.max(end, session.key.window().end());
                    sum += orZero(session.value);
                    merged.add(session.key);
                }
            }
            merged.forEach(sessions::remove);
            sessions.put(new Windowed<>(record.key(), new SessionWindow(start, end)), LongNode.valueOf(sum));
            text.append(windowed(sessions.fetch(record.key()))).append('|')
                .append(windowed(sessions.backwardFetch(record.key()))).append('|')
                .append(number(sessions.fetchSession(record.key(), start, end)));
            context().forward(record.withValue(text(text)));
        }
    }

    private static String stamped(final ValueAndTimestamp<Object> found) {
        return found == null ? "none" : number(found.value()) + "@" + found.timestamp();
    }

    private static String stampedEntries(final KeyValueIterator<Object, ValueAndTimestamp<Object>> iterator) {
        final StringBuilder text = new StringBuilder();
        try (iterator) {
            iterator.forEachRemaining(
                entry -> text.append(entry.key).append('=').append(stamped(entry.value)).append(';'));
        }
        return text.toString();
    }

    private static final class StampedScan extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final KeyValueStore<Object, ValueAndTimestamp<Object>> latest = context().getStateStore("latest");
            final ValueAndTimestamp<Object> absent = latest.putIfAbsent(
                record.key(), ValueAndTimestamp.make(record.value(), Math.max(0, record.timestamp() - 1)));
            context().forward(record.withKey("absent").withValue(text(stamped(absent))));
            context().forward(record.withKey("range").withValue(text(stampedEntries(latest.range("a", "b")))));
            context().forward(record.withKey("reverse").withValue(text(stampedEntries(latest.reverseRange("a", null)))));
            context().forward(record.withKey("all").withValue(text(stampedEntries(latest.all()))));
            context().forward(record.withKey("reverse all").withValue(text(stampedEntries(latest.reverseAll()))));
            context().forward(record.withKey("prefix").withValue(
                text(stampedEntries(latest.prefixScan("a", Serdes.String().serializer())))));
            if (orZero(record.value()) == 7) {
                context().forward(record.withKey("deleted").withValue(text(stamped(latest.delete(record.key())))));
                latest.putAll(List.of(
                    KeyValue.pair("aa", ValueAndTimestamp.<Object>make(LongNode.valueOf(70), 5)),
                    KeyValue.pair("c", ValueAndTimestamp.<Object>make(LongNode.valueOf(71), record.timestamp()))));
            }
        }
    }

    private static String stampedWindows(
        final KeyValueIterator<Windowed<Object>, ValueAndTimestamp<Object>> iterator) {
        final StringBuilder text = new StringBuilder();
        try (iterator) {
            iterator.forEachRemaining(entry -> text.append(entry.key.key()).append('@').append(entry.key.window().start())
                .append('-').append(entry.key.window().end()).append('=').append(stamped(entry.value)).append(';'));
        }
        return text.toString();
    }

    private static final class StampedWindows extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final WindowStore<Object, ValueAndTimestamp<Object>> windows = context().getStateStore("stamped");
            final long start = record.timestamp() - Math.floorMod(record.timestamp(), 10);
            final ValueAndTimestamp<Object> before = windows.fetch(record.key(), start);
            final long total = orZero(before == null ? null : before.value()) + orZero(record.value());
            windows.put(record.key(), orZero(record.value()) == 7
                ? null : ValueAndTimestamp.make(LongNode.valueOf(total), record.timestamp() + 3), start);
            context().forward(record.withKey("before").withValue(text(stamped(before))));
            final StringBuilder backward = new StringBuilder();
            try (WindowStoreIterator<ValueAndTimestamp<Object>> found =
                    windows.backwardFetch(record.key(), start - 30, start + 10)) {
                found.forEachRemaining(
                    entry -> backward.append(entry.key).append('=').append(stamped(entry.value)).append(';'));
            }
            context().forward(record.withKey("backward").withValue(text(backward)));
            context().forward(record.withKey("keys").withValue(text(stampedWindows(windows.fetch("a", "aa", 0, start)))));
            context().forward(record.withKey("times").withValue(text(stampedWindows(windows.fetchAll(start - 20, start)))));
            context().forward(record.withKey("all").withValue(text(stampedWindows(windows.all()))));
        }
    }

    private static String version(final VersionedRecord<Object> found) {
        return found == null ? "none" : number(found.value()) + "@" + found.timestamp();
    }

    private static final class History extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final VersionedKeyValueStore<Object, Object> history = context().getStateStore("history");
            final long at = record.timestamp();
            final long amount = orZero(record.value());
            final long since = amount % 2 == 0 ? Math.max(0, at - 4) : at;
            final String done = amount == 7 ? "deleted " + version(history.delete(record.key(), since))
                : "put " + history.put(record.key(), record.value(), since);
            context().forward(record.withValue(text(done)));
            final StringBuilder found = new StringBuilder(version(history.get(record.key())));
            for (final long ago : new long[] {0, 1, 5, 20, 1000}) {
                found.append('|').append(version(history.get(record.key(), Math.max(0, at - ago))));
            }
            context().forward(record.withValue(text(found)));
        }
    }

    private static final class LookUpVersion extends Base {
        @Override
        public void process(final Record<Object, Object> record) {
            final VersionedKeyValueStore<Object, Object> rows = context().getStateStore("table-store");
            context().forward(record.withValue(text(
                version(rows.get(record.key())) + "|" + version(rows.get(record.key(), record.timestamp())))));
        }
    }

    private static final class Metadata extends Base {
        @Override
        public void init(final ProcessorContext<Object, Object> context) {
            super.init(context);
            context.schedule(Duration.ofMillis(10), PunctuationType.STREAM_TIME,
                now -> context().forward(made("punctuation", LongNode.valueOf(now), now)));
        }

        @Override
        public void process(final Record<Object, Object> record) {
            final var found = context().recordMetadata().orElseThrow();
            final String place = found.topic() == null
                ? "none" : found.topic() + "-" + found.partition() + "@" + found.offset();
            context().forward(record.withValue(text(place + "|" + context().currentStreamTimeMs() + "|"
                + context().applicationId())));
        }
    }

    private static final class FixedKey extends ContextualFixedKeyProcessor<Object, Object, Object> {
        private final String fn;

        FixedKey(final String fn) {
            this.fn = fn;
        }

        @Override
        public void process(final FixedKeyRecord<Object, Object> record) {
            if (fn.equals("running total")) {
                final KeyValueStore<Object, Object> totals = context().getStateStore("totals");
                final long total = orZero(totals.get(record.key())) + orZero(record.value());
                totals.put(record.key(), LongNode.valueOf(total));
                context().forward(record.withValue(LongNode.valueOf(total)));
                if (Math.floorMod(total, 2) == 0) {
                    context().forward(record.withTimestamp(record.timestamp() + 5));
                }
            } else {
                throw new IllegalArgumentException(fn);
            }
        }
    }

    private static final class StatefulTransformer implements ValueTransformerWithKey<Object, Object, Object> {
        private org.apache.kafka.streams.processor.ProcessorContext context;

        @Override
        public void init(final org.apache.kafka.streams.processor.ProcessorContext context) {
            this.context = context;
        }

        @Override
        public Object transform(final Object key, final Object value) {
            final KeyValueStore<Object, Object> totals = context.getStateStore("totals");
            final long count = orZero(totals.get(key)) + 1;
            totals.put(key, LongNode.valueOf(count));
            return value == null ? null : LongNode.valueOf(orZero(value) + 1000 * count);
        }

        @Override
        public void close() { }
    }

    /** Chooses topics, and is described by its name. */
    private record Extractor(String fn) implements TopicNameExtractor<Object, Object> {
        @Override
        public String extract(final Object key, final Object value, final RecordContext context) {
            return switch (fn) {
                case "key" -> "out-" + String.valueOf(key).replace('@', '.');
                case "even or odd" -> Math.floorMod(orZero(value), 2) == 1 ? "odd" : "even";
                case "context" -> {
                    final StringBuilder place = new StringBuilder(
                        context.topic() == null || context.topic().isEmpty() ? "none" : context.topic());
                    place.append('.').append(context.partition()).append('.').append(context.offset())
                        .append('.').append(context.timestamp());
                    context.headers().forEach(header -> place.append('.').append(header.key()));
                    yield place.toString();
                }
                case "window start" -> "from-" + ((Windowed<Object>) key).window().start();
                default -> throw new IllegalArgumentException(fn);
            };
        }

        @Override
        public String toString() {
            return fn;
        }
    }

    private static final class KeySerializer implements Serializer<Object> {
        private final SessionWindowedSerializer<Object> sessions =
            new SessionWindowedSerializer(Serdes.String().serializer());
        private final TimeWindowedSerializer<Object> windowed = new TimeWindowedSerializer(Serdes.String().serializer());

        @Override
        public byte[] serialize(final String topic, final Object key) {
            if (key instanceof Windowed window && window.window() instanceof SessionWindow) {
                return sessions.serialize(topic, window);
            }
            if (key instanceof Windowed window) {
                return windowed.serialize(topic, window);
            }
            return key == null ? null : ((String) key).getBytes(StandardCharsets.UTF_8);
        }
    }

    private static final class KeyDeserializer implements Deserializer<Object> {
        @Override
        public Object deserialize(final String topic, final byte[] data) {
            if (data == null) {
                return null;
            }
            try {
                return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data)).toString();
            } catch (final CharacterCodingException notText) {
                // The key of a window, of which only the store's bytes are known.
                return "0x" + HEX.formatHex(data);
            }
        }
    }

    /** For tables whose operators name no serde. */
    public static final class ValueSerde extends Serdes.WrapperSerde<Object> {
        public ValueSerde() {
            super(new ValueSerializer(), new ValueDeserializer());
        }
    }

    private static final class ValueSerializer implements Serializer<Object> {
        @Override
        public byte[] serialize(final String topic, final Object value) {
            return value == null ? null : json(value).getBytes(StandardCharsets.UTF_8);
        }
    }

    private static final class ValueDeserializer implements Deserializer<Object> {
        @Override
        public Object deserialize(final String topic, final byte[] data) {
            try {
                final JsonNode node = data == null ? null : JSON.readTree(data);
                // Numbers are long everywhere, so that a value is the same before and after a topic.
                return node != null && node.isIntegralNumber() ? LongNode.valueOf(node.asLong()) : node;
            } catch (final IOException error) {
                throw new org.apache.kafka.common.errors.SerializationException(error);
            }
        }
    }
}
