import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.kstream.Branched;
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
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import static org.apache.kafka.streams.kstream.Suppressed.BufferConfig.maxRecords;
import static org.apache.kafka.streams.kstream.Suppressed.BufferConfig.unbounded;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.processor.ProcessorContext;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;

/**
 * Writes what Kafka Streams says of a set of topologies: one file each, with the description, and behind a line of
 * dashes the internal topics of each sub-topology. The same topologies stand in tests/unit/topology/catalogue.py.
 *
 * <p>Usage: java DescribeTopologies.java DIRECTORY, with kafka-streams and kafka-clients 4.4.0 and slf4j-api on the
 * class path.
 */
public class DescribeTopologies {

    private static final Serde<String> S = Serdes.String();
    private static final JoinWindows NEAR = JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofSeconds(1));
    private static final TimeWindows MINUTE = TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1));
    private static final SessionWindows SESSIONS =
        SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(5), Duration.ofMinutes(1));
    private static final SlidingWindows SLIDING =
        SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMinutes(5), Duration.ofMinutes(1));

    public static void main(final String[] arguments) throws IOException {
        final Path directory = Path.of(arguments[0]);
        for (final Map.Entry<String, Consumer<StreamsBuilder>> entry : catalogue().entrySet()) {
            write(directory, entry.getKey(), entry.getValue(), StreamsConfig.NO_OPTIMIZATION);
        }
        for (final Map.Entry<String, Consumer<StreamsBuilder>> entry : optimised().entrySet()) {
            write(directory, entry.getKey(), entry.getValue(), StreamsConfig.OPTIMIZE);
        }
        final StringBuilder refused = new StringBuilder();
        for (final Map.Entry<String, Consumer<StreamsBuilder>> entry : catalogue().entrySet()) {
            refused.append("== ").append(entry.getKey()).append('\n').append(unnamed(entry.getValue()));
        }
        Files.writeString(directory.resolve("explicit_naming.list"), refused.toString());
        Files.writeString(directory.resolve("windowed_changelogs.list"), changelogs(windowedCatalogue()));
        Files.writeString(directory.resolve("versioned_changelogs.list"), changelogs(versionedCatalogue()));
        Files.writeString(directory.resolve("foreign_key_topics.list"), foreignKeyTopics());
    }

    private static final Consumed<String, String> STRINGS = Consumed.with(S, S);

    private static Map<String, Consumer<StreamsBuilder>> globalTables() {
        final Map<String, Consumer<StreamsBuilder>> all = new LinkedHashMap<>();
        all.put("global_table_joins", b -> {
            final GlobalKTable<String, String> users = b.globalTable("users", STRINGS);
            final KStream<String, String> stream = b.stream("in", STRINGS);
            stream.join(users, (k, v) -> v, (v, o) -> v).to("out");
            stream.filter((k, v) -> true).leftJoin(users, (k, v) -> v, (v, o) -> v).to("out-left");
        });
        all.put("global_table_joins_named", b -> {
            final KStream<String, String> stream = b.stream("in", Consumed.with(S, S).withName("input"));
            final GlobalKTable<String, String> users =
                b.globalTable("users", Consumed.with(S, S).withName("users"), Materialized.as("user-store"));
            stream.join(users, (k, v) -> v, (v, o) -> v, Named.as("enrich")).to("out");
            stream.leftJoin(users, (k, v) -> v, (v, o) -> v, Named.as("enrich-left")).to("out-left");
        });
        all.put("global_tables_between_streams", b -> {
            b.stream("a", STRINGS).to("out-a");
            final GlobalKTable<String, String> one = b.globalTable("one", STRINGS);
            final GlobalKTable<String, String> two = b.globalTable("two", STRINGS, Materialized.as("two-store"));
            b.stream("b", STRINGS).leftJoin(one, (k, v) -> v, (v, o) -> v).join(two, (k, v) -> v, (v, o) -> v)
                .to("out-b");
            b.globalTable("three");
            b.table("c", STRINGS).toStream().join(two, (k, v) -> v, (v, o) -> v).to("out-c");
        });
        all.put("global_table_join_between_key_change_and_aggregation", b -> {
            final GlobalKTable<String, String> users = b.globalTable("users", STRINGS);
            final KStream<String, String> joined = b.stream("in", STRINGS).selectKey((k, v) -> v)
                .leftJoin(users, (k, v) -> v, (v, o) -> v);
            joined.groupByKey(Grouped.with(S, S)).count().toStream().to("out");
            joined.join(b.table("t", STRINGS), (v, o) -> v, Joined.with(S, S, S)).to("joined");
        });
        return all;
    }

    private static Properties properties(final String optimisation) {
        final Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
        properties.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, optimisation);
        return properties;
    }

    private static void write(
            final Path directory,
            final String name,
            final Consumer<StreamsBuilder> topology,
            final String optimisation) throws IOException {
        final StreamsBuilder builder = new StreamsBuilder();
        topology.accept(builder);
        final Properties properties = properties(optimisation);
        final Topology built = builder.build(properties);
        Files.writeString(
            directory.resolve(name + ".txt"), built.describe().toString() + "----\n" + InternalTopics.of(built, properties));
    }

    /** Settings of all internal topics of a join by a foreign key. */
    private static String foreignKeyTopics() {
        final StreamsBuilder builder = new StreamsBuilder();
        ForeignKeyTopologies.catalogue().get("foreign_key_left_join_named").accept(builder);
        final Properties properties = properties(StreamsConfig.NO_OPTIMIZATION);
        final Topology topology = builder.build(properties);
        return InternalTopics.repartitionSettings(topology, properties)
            + InternalTopics.changelogSettings(topology, properties);
    }

    /** Topic settings of the changelogs of topologies. */
    private static String changelogs(final Map<String, Consumer<StreamsBuilder>> catalogue) {
        final StringBuilder text = new StringBuilder();
        for (final Map.Entry<String, Consumer<StreamsBuilder>> entry : catalogue.entrySet()) {
            final StreamsBuilder builder = new StreamsBuilder();
            entry.getValue().accept(builder);
            final Properties properties = properties(StreamsConfig.NO_OPTIMIZATION);
            text.append("== ").append(entry.getKey()).append('\n')
                .append(InternalTopics.changelogSettings(builder.build(properties), properties));
        }
        return text.toString();
    }

    private static void suppressions(final Map<String, Consumer<StreamsBuilder>> all) {
        all.put("suppressed_unnamed", b -> {
            final var grouped = b.stream("in", Consumed.with(S, S)).groupByKey();
            grouped.windowedBy(MINUTE).count().suppress(Suppressed.untilWindowCloses(unbounded()))
                .toStream().to("final");
            grouped.count().suppress(Suppressed.untilTimeLimit(Duration.ofSeconds(5), maxRecords(10)))
                .mapValues(v -> v).toStream().to("latest");
        });
        all.put("emitted_on_close", b -> {
            final var grouped = b.stream("in", Consumed.with(S, S)).groupByKey();
            grouped.windowedBy(MINUTE).emitStrategy(EmitStrategy.onWindowClose()).count().toStream().to("tumbling");
            grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMinutes(5), Duration.ofMinutes(1)))
                .emitStrategy(EmitStrategy.onWindowClose()).reduce((a, v) -> v, Materialized.as("sliding"))
                .toStream().to("sliding");
            grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(5), Duration.ofMinutes(1)))
                .emitStrategy(EmitStrategy.onWindowClose()).count(Named.as("visits"), Materialized.as("sessions"))
                .toStream().to("sessions");
        });
        all.put("suppressed_named", b ->
            b.stream("in", Consumed.with(S, S)).selectKey((k, v) -> v).groupByKey().windowedBy(MINUTE)
                .count(Materialized.as("counts"))
                .suppress(Suppressed.untilWindowCloses(unbounded()).withName("final"))
                .filter((k, v) -> true).toStream().to("out"));
        all.put("suppressed_with_changelog_settings", b ->
            b.stream("in", Consumed.with(S, S)).groupByKey().windowedBy(MINUTE).count(Materialized.as("counts"))
                .suppress(Suppressed.untilWindowCloses(
                    unbounded().withLoggingEnabled(Map.of("min.insync.replicas", "2"))).withName("final"))
                .toStream().to("out"));
        all.put("suppressed_without_changelog", b ->
            b.table("in", Consumed.with(S, S)).suppress(Suppressed.untilTimeLimit(
                Duration.ofSeconds(5), maxRecords(10).withLoggingDisabled())).toStream().to("out"));
        all.put("suppressed_table_looked_up", b -> {
            final KTable<String, String> held = b.table("in", Consumed.with(S, S), Materialized.as("rows"))
                .filter((k, v) -> true).suppress(
                    Suppressed.<String>untilTimeLimit(Duration.ofSeconds(5), maxRecords(10)).withName("held"));
            b.stream("clicks", Consumed.with(S, S)).join(held, (v, t) -> v).to("joined");
            held.groupBy((k, v) -> KeyValue.pair(v, v), Grouped.as("by-value")).count(Materialized.as("totals"))
                .suppress(Suppressed.untilTimeLimit(Duration.ofSeconds(5), unbounded())).toStream().to("totals");
        });
    }

    private static Map<String, Consumer<StreamsBuilder>> windowedCatalogue() {
        final Map<String, Consumer<StreamsBuilder>> all = new LinkedHashMap<>();
        all.put("sessions_unnamed_after_key_change", b -> {
            final var windowed = b.stream("in", Consumed.with(S, S)).selectKey((k, v) -> v).groupByKey()
                .windowedBy(SESSIONS);
            windowed.count().toStream().to("out-count");
            windowed.reduce((a, v) -> v).toStream().to("out-reduce");
            windowed.aggregate(() -> "", (k, v, a) -> a, (k, a, o) -> a).toStream().to("out-aggregate");
        });
        all.put("sessions_named", b ->
            b.stream("in").groupBy((k, v) -> v, Grouped.as("by-value")).windowedBy(SESSIONS)
                .count(Named.as("counting"), Materialized.as("counts")).toStream(Named.as("changes")).to("out"));
        all.put("sessions_counted_with_unnamed_materialized", b ->
            b.stream("in").groupByKey().windowedBy(SESSIONS).count(Materialized.with(null, Serdes.Long()))
                .toStream().to("out"));
        all.put("sliding_unnamed_after_key_change", b -> {
            final var windowed = b.stream("in", Consumed.with(S, S)).selectKey((k, v) -> v).groupByKey()
                .windowedBy(SLIDING);
            windowed.count().toStream().to("out-count");
            windowed.reduce((a, v) -> v).toStream().to("out-reduce");
            windowed.aggregate(() -> "", (k, v, a) -> a).toStream().to("out-aggregate");
        });
        all.put("sliding_named", b ->
            b.stream("in").groupBy((k, v) -> v, Grouped.as("by-value")).windowedBy(SLIDING)
                .count(Named.as("counting"), Materialized.as("counts")).toStream(Named.as("changes")).to("out"));
        all.put("sliding_counted_with_unnamed_materialized", b ->
            b.stream("in").groupByKey().windowedBy(SLIDING).count(Materialized.with(null, Serdes.Long()))
                .toStream().to("out"));
        suppressions(all);
        all.put("unlimited_window", b ->
            b.stream("in").groupByKey().windowedBy(UnlimitedWindows.of()).count().toStream().to("out"));
        all.put("windowed_cogroups_unnamed", b -> {
            final CogroupedKStream<String, String> cogrouped = strings(b, "a").groupByKey()
                .cogroup(DescribeTopologies::kept).cogroup(strings(b, "b").groupByKey(), DescribeTopologies::kept);
            cogrouped.windowedBy(MINUTE).aggregate(() -> "").toStream().to("tumbling");
            cogrouped.windowedBy(SLIDING).aggregate(() -> "").toStream().to("sliding");
            cogrouped.windowedBy(SESSIONS).aggregate(() -> "", (k, a, o) -> a).toStream().to("sessions");
        });
        all.put("windowed_cogroups_named", b -> {
            final CogroupedKStream<String, String> cogrouped = strings(b, "a").groupByKey()
                .cogroup(DescribeTopologies::kept).cogroup(strings(b, "b").groupByKey(), DescribeTopologies::kept);
            cogrouped.windowedBy(MINUTE).aggregate(() -> "", Named.as("minutes"), Materialized.as("minutes-store"))
                .toStream().to("tumbling");
            cogrouped.windowedBy(SLIDING).aggregate(() -> "", Named.as("slides"), Materialized.as("slides-store"))
                .toStream().to("sliding");
            cogrouped.windowedBy(SESSIONS).aggregate(
                () -> "", (k, a, o) -> a, Named.as("visits"), Materialized.as("visits-store")).toStream().to("sessions");
        });
        return all;
    }

    /** The resources that compulsory naming refuses, one a line, sorted. */
    private static String unnamed(final Consumer<StreamsBuilder> topology) {
        final Properties properties = properties(StreamsConfig.NO_OPTIMIZATION);
        properties.put(StreamsConfig.ENSURE_EXPLICIT_INTERNAL_RESOURCE_NAMING_CONFIG, "true");
        final StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(properties)));
        try {
            topology.accept(builder);
            builder.build(properties);
        } catch (final org.apache.kafka.streams.errors.TopologyException refusal) {
            return refusal.getMessage().strip() + "\n";
        }
        return "accepted\n";
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> versions(final String name) {
        return Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore(name, Duration.ofDays(1)))
            .withKeySerde(S).withValueSerde(S);
    }

    private static Map<String, Consumer<StreamsBuilder>> versionedCatalogue() {
        final Map<String, Consumer<StreamsBuilder>> all = new LinkedHashMap<>();
        all.put("versioned_tables", b -> {
            final KTable<String, String> users = b.table("users", Consumed.with(S, S), versions("user-versions"));
            final KTable<String, String> plans = b.stream("plans", Consumed.with(S, S)).toTable(versions("plan-versions"));
            users.filter((k, v) -> true).mapValues(v -> v, versions("mapped")).join(plans, (v, o) -> v)
                .toStream().to("out");
            users.leftJoin(plans, (v, o) -> v, versions("joined")).groupBy((k, v) -> KeyValue.pair(k, v)).count()
                .toStream().to("counts");
            b.stream("clicks", Consumed.with(S, S)).groupByKey().count(Materialized.<String, Long>as(
                Stores.persistentVersionedKeyValueStore("click-versions", Duration.ofDays(1)))).toStream().to("clicked");
        });
        all.put("versioned_joins_with_grace_unnamed", b -> {
            final KTable<String, String> users = b.table("users", Consumed.with(S, S), versions("user-versions"));
            final KStream<String, String> clicks = b.stream("clicks", Consumed.with(S, S));
            clicks.join(users, (v, t) -> v, Joined.with(S, S, S).withGracePeriod(Duration.ofDays(1))).to("out");
            clicks.leftJoin(users.filter((k, v) -> true), (v, t) -> v,
                Joined.with(S, S, S).withGracePeriod(Duration.ZERO)).to("other");
        });
        all.put("versioned_join_with_grace_named", b -> {
            final KTable<String, String> users = b.table("users", Consumed.with(S, S), versions("user-versions"));
            final KStream<String, String> keyed = b.stream("clicks", Consumed.with(S, S)).selectKey((k, v) -> v);
            keyed.join(users, (v, t) -> v,
                Joined.with(S, S, S, "with-user").withGracePeriod(Duration.ofHours(1))).to("out");
            b.stream("views", Consumed.with(S, S)).leftJoin(users, (v, t) -> v, Joined.with(S, S, S)).to("other");
        });
        return all;
    }

    private static Map<String, Consumer<StreamsBuilder>> catalogue() {
        final Map<String, Consumer<StreamsBuilder>> all = new LinkedHashMap<>();
        all.put("filter_to", b -> b.stream("in").filter((k, v) -> true).to("out"));
        all.put("stateless_unnamed", b -> {
            final KStream<Object, Object> stream = b.stream("in");
            stream.filterNot((k, v) -> true)
                .map((k, v) -> KeyValue.pair(k, v))
                .mapValues(v -> v)
                .flatMap((k, v) -> List.of(KeyValue.pair(k, v)))
                .flatMapValues(v -> List.of(v))
                .selectKey((k, v) -> k)
                .peek((k, v) -> { })
                .to("out");
            stream.foreach((k, v) -> { });
        });
        all.put("stateless_named", b -> {
            final KStream<Object, Object> stream = b.stream(List.of("in-a", "in-b", "in-c"), Consumed.as("inputs"));
            stream.filter((k, v) -> true, Named.as("keep"))
                .map((k, v) -> KeyValue.pair(k, v), Named.as("re-map"))
                .mapValues(v -> v, Named.as("re-value"))
                .flatMap((k, v) -> List.of(KeyValue.pair(k, v)), Named.as("explode"))
                .flatMapValues(v -> List.of(v), Named.as("explode-values"))
                .selectKey((k, v) -> k, Named.as("re-key"))
                .peek((k, v) -> { }, Named.as("look"))
                .to("out", Produced.as("output"));
            stream.foreach((k, v) -> { }, Named.as("end"));
            stream.filter((k, v) -> true).to("other");
        });
        all.put("group_by_key_count", b -> b.stream("in").groupByKey().count().toStream().to("out"));
        all.put("map_group_by_key_count", b ->
            b.stream("in").map((k, v) -> KeyValue.pair(k, v)).groupByKey().count().toStream().to("out"));
        all.put("group_by_count_named_store", b ->
            b.stream("in").groupBy((k, v) -> v).count(Materialized.as("counts")).toStream().to("out"));
        all.put("group_by_count_all_named", b ->
            b.stream("in", Consumed.as("input"))
                .groupBy((k, v) -> v, Grouped.as("by-value"))
                .count(Named.as("counting"), Materialized.as("counts"))
                .toStream(Named.as("changes"))
                .to("out", Produced.as("output")));
        all.put("count_with_unnamed_materialized", b ->
            b.stream("in").groupBy((k, v) -> v).count(Materialized.with(null, Serdes.Long())).toStream().to("out"));
        all.put("aggregations_unnamed", b -> {
            final KGroupedStream<String, String> grouped =
                b.stream("in", Consumed.with(S, S)).groupBy((k, v) -> v);
            grouped.count().toStream().to("out-count");
            grouped.reduce((a, v) -> v).toStream().to("out-reduce");
            grouped.aggregate(() -> "", (k, v, a) -> a).toStream().to("out-aggregate");
        });
        all.put("aggregations_sharing_a_named_repartition", b -> {
            final KGroupedStream<String, String> grouped =
                b.stream("in", Consumed.with(S, S)).groupBy((k, v) -> v, Grouped.as("by-value"));
            grouped.count().toStream().to("out-count");
            grouped.reduce((a, v) -> v, Materialized.as("reduced")).toStream().to("out-reduce");
            grouped.windowedBy(MINUTE).count().toStream().to("out-windowed");
        });
        all.put("windowed_count", b ->
            b.stream("in").groupByKey().windowedBy(MINUTE).count().toStream().to("out"));
        all.put("windowed_all_unnamed_after_key_change", b -> {
            final var windowed = b.stream("in", Consumed.with(S, S)).selectKey((k, v) -> v).groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(5), Duration.ofMinutes(1))
                    .advanceBy(Duration.ofMinutes(1)));
            windowed.count().toStream((w, v) -> w.key()).to("out-count");
            windowed.reduce((a, v) -> v).toStream().to("out-reduce");
            windowed.aggregate(() -> "", (k, v, a) -> a).toStream().to("out-aggregate");
        });
        all.put("windowed_named", b ->
            b.stream("in").groupBy((k, v) -> v, Grouped.as("by-value")).windowedBy(MINUTE)
                .count(Named.as("counting"), Materialized.as("counts")).toStream(Named.as("changes")).to("out"));
        all.put("branches_unnamed", b -> {
            final Map<String, KStream<Object, Object>> branches = b.stream("in").split()
                .branch((k, v) -> true)
                .branch((k, v) -> true)
                .branch((k, v) -> true)
                .defaultBranch();
            for (final String name : new TreeSet<>(branches.keySet())) {
                branches.get(name).mapValues(v -> v).to("out-" + name);
            }
        });
        all.put("branches_named", b -> {
            final Map<String, KStream<Object, Object>> branches = b.stream("in").split(Named.as("by-size-"))
                .branch((k, v) -> true, Branched.as("large"))
                .branch((k, v) -> true, Branched.withFunction(s -> s.mapValues(v -> v), "middle"))
                .branch((k, v) -> true, Branched.withConsumer(s -> s.to("small"), "small"))
                .noDefaultBranch();
            branches.get("by-size-large").to("large");
            branches.get("by-size-middle").to("middle");
        });
        all.put("branches_of_different_sizes", b -> b.stream("in").split()
            .branch((k, v) -> true, Branched.withConsumer(s -> s.to("one")))
            .branch((k, v) -> true, Branched.withConsumer(s -> s.mapValues(v -> v).mapValues(v -> v).to("two")))
            .branch((k, v) -> true, Branched.withConsumer(s -> {
                s.mapValues(v -> v).to("three");
                s.peek((k, v) -> { }).filter((k, v) -> true).to("four");
            }))
            .branch((k, v) -> true, Branched.withConsumer(s -> s.groupByKey().count().toStream().to("five")))
            .branch((k, v) -> true, Branched.withConsumer(s -> s.to("six")))
            .defaultBranch(Branched.withConsumer(s -> s.mapValues(v -> v).to("seven"))));
        all.put("merge", b -> b.stream("a").merge(b.stream("b")).to("out"));
        all.put("merge_of_branches_then_count", b -> {
            final KStream<Object, Object> a = b.stream("a");
            final KStream<Object, Object> other = b.stream("b").selectKey((k, v) -> v);
            a.mapValues(v -> v).merge(other, Named.as("both")).merge(a.filter((k, v) -> true))
                .groupByKey().count().toStream().to("out");
        });
        all.put("repartition_unnamed", b -> b.stream("in").repartition().mapValues(v -> v).to("out"));
        all.put("repartition_named", b ->
            b.stream("in").selectKey((k, v) -> v)
                .repartition(Repartitioned.<Object, Object>as("spread").withNumberOfPartitions(3))
                .groupByKey().count().toStream().to("out"));
        all.put("to_table_unnamed", b -> b.stream("in").toTable().toStream().to("out"));
        all.put("to_table_after_key_change", b ->
            b.stream("in").map((k, v) -> KeyValue.pair(k, v)).toTable(Materialized.as("latest")).toStream().to("out"));
        all.put("to_table_named_after_key_change", b ->
            b.stream("in").selectKey((k, v) -> v).toTable(Named.as("as-table")).toStream().to("out"));
        all.put("table_unnamed", b -> b.table("in").toStream().to("out"));
        all.put("table_named", b ->
            b.table("in", Consumed.as("table"), Materialized.as("latest")).toStream().to("out"));
        all.put("stream_table_join", b ->
            b.stream("clicks").join(b.table("users"), (v, t) -> v).to("out"));
        all.put("stream_table_left_join_after_select_key", b ->
            b.stream("clicks").selectKey((k, v) -> v).leftJoin(b.table("users"), (v, t) -> v).to("out"));
        all.put("stream_table_join_named", b ->
            b.<String, String>stream("clicks", Consumed.with(S, S)).selectKey((k, v) -> v, Named.as("by-user"))
                .join(
                    b.table("users", Consumed.with(S, S), Materialized.as("users-store")),
                    (v, t) -> v,
                    Joined.with(S, S, S, "with-user"))
                .to("out"));
        all.put("two_joins_of_one_re_keyed_stream", b -> {
            final KStream<String, String> clicks =
                b.stream("clicks", Consumed.with(S, S)).selectKey((k, v) -> v);
            final KTable<String, String> users = b.table("users", Consumed.with(S, S));
            final KTable<String, String> plans = b.table("plans", Consumed.with(S, S));
            clicks.join(users, (v, t) -> v).to("with-users");
            clicks.leftJoin(plans, (v, t) -> v).to("with-plans");
        });
        all.put("join_with_an_aggregated_table", b -> {
            final KStream<Object, Object> payments = b.stream("payments");
            final KTable<Object, Long> counts = payments.groupByKey().count(Materialized.as("counts"));
            payments.join(counts, (v, c) -> v).to("out");
        });
        all.put("join_with_to_table", b -> {
            final KTable<Object, Object> table = b.stream("users").filter((k, v) -> true).toTable();
            b.stream("clicks").leftJoin(table, (v, t) -> v).to("out");
        });
        all.put("same_topic_twice", b -> {
            b.stream("in").filter((k, v) -> true).to("one");
            b.stream("in").mapValues(v -> v).to("two");
        });
        all.put("chained_sub_topologies", b ->
            b.stream("in").groupBy((k, v) -> v).count(Materialized.as("first")).toStream()
                .groupBy((k, v) -> v).count(Materialized.as("second")).toStream()
                .selectKey((k, v) -> v).repartition(Repartitioned.as("last")).to("out"));
        all.put("independent_sub_topologies", b -> {
            b.stream("b").to("out-b");
            b.stream("a").groupBy((k, v) -> v).count().toStream().to("out-a");
            b.stream("c").mapValues(v -> v).to("out-c");
        });
        all.put("store_without_changelog", b ->
            b.stream("in").groupByKey()
                .count(Materialized.<Object, Long, org.apache.kafka.streams.state.KeyValueStore<
                    org.apache.kafka.common.utils.Bytes, byte[]>>as("counts").withLoggingDisabled())
                .toStream().to("out"));
        all.put("fraud_detection", b -> {
            final KStream<String, String> payments = b.stream("payments", Consumed.with(S, S));
            final KTable<String, String> customers = b.table("customers", Consumed.with(S, S));
            final KStream<String, String> enriched = payments.filter((k, v) -> true)
                .selectKey((k, v) -> v).leftJoin(customers, (v, t) -> v);
            enriched.split(Named.as("risk-"))
                .branch((k, v) -> true, Branched.withConsumer(s -> s.to("alerts"), "high"))
                .defaultBranch(Branched.withConsumer(
                    s -> s.groupByKey(Grouped.with(S, S)).windowedBy(MINUTE)
                        .count(Materialized.as("payments-per-minute")).toStream()
                        .filter((k, v) -> true).map((k, v) -> KeyValue.pair(k.key(), v)).to("alerts-by-count"),
                    "rest"));
        });
        streamJoins(all);
        tables(all);
        cogroups(all);
        all.putAll(windowedCatalogue());
        all.putAll(globalTables());
        for (int seed = 1; seed < 9; seed++) {
            final int start = seed;
            all.put("grown_" + seed, b -> grow(b, start));
        }
        all.putAll(versionedCatalogue());
        all.putAll(ForeignKeyTopologies.catalogue());
        return all;
    }

    private static void streamJoins(final Map<String, Consumer<StreamsBuilder>> all) {
        all.put("stream_stream_join", b ->
            b.stream("a").join(b.stream("b"), (v, o) -> v, NEAR).to("out"));
        all.put("stream_stream_left_join", b ->
            b.stream("a").leftJoin(b.stream("b"), (v, o) -> v, NEAR).to("out"));
        all.put("stream_stream_outer_join", b ->
            b.stream("a").outerJoin(b.stream("b"), (v, o) -> v, NEAR).to("out"));
        all.put("stream_stream_joins_named", b -> {
            final KStream<String, String> a = b.stream("a", Consumed.with(S, S));
            final KStream<String, String> other = b.stream("b", Consumed.with(S, S));
            a.join(other, (v, o) -> v, NEAR, StreamJoined.with(S, S, S).withName("inner").withStoreName("i"))
                .to("out-inner");
            a.leftJoin(other, (v, o) -> v, NEAR, StreamJoined.with(S, S, S).withName("left").withStoreName("l"))
                .to("out-left");
            a.outerJoin(other, (v, o) -> v, NEAR, StreamJoined.with(S, S, S).withName("outer").withStoreName("o"))
                .to("out-outer");
        });
        all.put("stream_stream_join_named_without_store_name", b ->
            b.stream("a", Consumed.with(S, S)).selectKey((k, v) -> v)
                .leftJoin(b.stream("b", Consumed.with(S, S)), (v, o) -> v, NEAR,
                    StreamJoined.with(S, S, S).withName("near"))
                .mapValues(v -> v).to("out"));
        all.put("stream_stream_join_with_store_name_only", b ->
            b.stream("a", Consumed.with(S, S))
                .outerJoin(b.stream("b", Consumed.with(S, S)), (v, o) -> v, NEAR, StreamJoined.as("near"))
                .to("out"));
        all.put("stream_stream_join_of_changed_keys", b ->
            b.stream("a", Consumed.with(S, S)).selectKey((k, v) -> v)
                .join(b.stream("b", Consumed.with(S, S)).map((k, v) -> KeyValue.pair(v, k)), (v, o) -> v, NEAR,
                    StreamJoined.with(S, S, S))
                .groupByKey(Grouped.with(S, S)).count().toStream().to("out"));
        all.put("stream_stream_join_of_changed_keys_named", b ->
            b.stream("a", Consumed.with(S, S)).selectKey((k, v) -> v)
                .outerJoin(b.stream("b", Consumed.with(S, S)).selectKey((k, v) -> v), (v, o) -> v, NEAR,
                    StreamJoined.with(S, S, S).withName("near").withStoreName("buffer"))
                .to("out"));
        all.put("stream_stream_join_without_changelog", b ->
            b.stream("a", Consumed.with(S, S)).leftJoin(b.stream("b", Consumed.with(S, S)), (v, o) -> v, NEAR,
                StreamJoined.with(S, S, S).withLoggingDisabled()).to("out"));
        all.put("stream_joined_with_itself", b -> {
            final KStream<String, String> a = b.stream("a", Consumed.with(S, S));
            a.join(a, (v, o) -> v, NEAR, StreamJoined.with(S, S, S)).to("out");
        });
        all.put("re_keyed_stream_joined_with_itself", b -> {
            final KStream<String, String> a = b.stream("a", Consumed.with(S, S)).selectKey((k, v) -> v);
            a.leftJoin(a, (v, o) -> v, NEAR, StreamJoined.with(S, S, S)).to("out");
        });
        all.put("stream_stream_joins_in_a_row", b -> {
            final KStream<String, String> a = b.stream("a", Consumed.with(S, S));
            final KStream<String, String> other = b.stream("b", Consumed.with(S, S));
            final KStream<String, String> third = b.stream("c", Consumed.with(S, S));
            final KStream<String, String> first = a.outerJoin(other, (v, o) -> v, NEAR, StreamJoined.with(S, S, S));
            first.filter((k, v) -> true).join(third, (v, o) -> v, NEAR, StreamJoined.with(S, S, S)).to("out");
            first.selectKey((k, v) -> v).leftJoin(a, (v, o) -> v, NEAR, StreamJoined.with(S, S, S)).to("other");
        });
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> store(final String name) {
        return Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(S).withValueSerde(S);
    }

    private static void tables(final Map<String, Consumer<StreamsBuilder>> all) {
        all.put("table_operators_unnamed", b -> {
            final KTable<String, String> table = b.table("in", Consumed.with(S, S));
            table.filter((k, v) -> true).filterNot((k, v) -> true).mapValues(v -> v)
                .transformValues(() -> new Kept()).toStream().to("out");
            table.filter((k, v) -> true, Materialized.with(S, S)).mapValues(v -> v, Materialized.with(S, S))
                .transformValues(() -> new Kept(), Materialized.with(S, S)).toStream().to("other");
        });
        all.put("table_operators_named", b -> {
            final KTable<String, String> table = b.table("in", Consumed.with(S, S));
            table.filter((k, v) -> true, Named.as("keep"), store("kept"))
                .filterNot((k, v) -> true, Named.as("drop"))
                .mapValues(v -> v, Named.as("re-value"), store("mapped"))
                .transformValues(() -> new Kept(), store("transformed"), Named.as("transform"))
                .toStream().to("out");
        });
        all.put("table_joins_unnamed", b -> {
            final KTable<String, String> one = b.table("a", Consumed.with(S, S));
            final KTable<String, String> two = b.table("b", Consumed.with(S, S));
            one.join(two, (v, w) -> v).toStream().to("inner");
            one.leftJoin(two, (v, w) -> v).toStream().to("left");
            one.outerJoin(two, (v, w) -> v).toStream().to("outer");
        });
        all.put("table_joins_named", b -> {
            final KTable<String, String> one = b.table("a", Consumed.with(S, S), store("one"));
            final KTable<String, String> two = b.table("b", Consumed.with(S, S), store("two"));
            one.join(two, (v, w) -> v, Named.as("with-two"), store("joined")).toStream().to("inner");
            one.leftJoin(two, (v, w) -> v, Named.as("left-with-two")).toStream().to("left");
            one.outerJoin(two, (v, w) -> v, store("outer")).toStream().to("outer");
        });
        all.put("table_join_with_unnamed_materialized", b ->
            b.table("a", Consumed.with(S, S)).join(
                b.table("b", Consumed.with(S, S)), (v, w) -> v, Materialized.with(S, S)).toStream().to("out"));
        all.put("table_join_of_computed_tables", b -> {
            final KTable<String, String> one = b.table("a", Consumed.with(S, S)).filter((k, v) -> true);
            final KTable<String, String> two =
                b.table("b", Consumed.with(S, S)).mapValues(v -> v).filterNot((k, v) -> true);
            final KTable<String, String> joined = one.outerJoin(two, (v, w) -> v);
            joined.leftJoin(two, (v, w) -> v).toStream().to("out");
            b.stream("c", Consumed.with(S, S)).join(joined.mapValues(v -> v), (v, w) -> v).to("other");
        });
        all.put("stream_join_with_a_filtered_table", b ->
            b.stream("clicks", Consumed.with(S, S))
                .join(b.table("users", Consumed.with(S, S)).filter((k, v) -> true), (v, t) -> v).to("out"));
        all.put("table_aggregations_unnamed", b -> {
            final KGroupedTable<String, String> grouped =
                b.table("in", Consumed.with(S, S)).groupBy((k, v) -> KeyValue.pair(v, v), Grouped.with(S, S));
            grouped.count().toStream().to("count");
            grouped.reduce((a, v) -> v, (a, v) -> a).toStream().to("reduce");
            grouped.aggregate(() -> "", (k, v, a) -> a, (k, v, a) -> a).toStream().to("aggregate");
        });
        all.put("table_aggregations_named", b -> {
            final KGroupedTable<String, String> grouped =
                b.table("in", Consumed.with(S, S)).groupBy((k, v) -> KeyValue.pair(v, v), Grouped.as("by-value"));
            grouped.count(Named.as("counting"), Materialized.as("counts")).toStream().to("count");
            grouped.reduce((a, v) -> v, (a, v) -> a, Named.as("reducing"), store("reduced")).toStream().to("reduce");
            grouped.aggregate(() -> "", (k, v, a) -> a, (k, v, a) -> a, store("aggregated")).toStream().to("aggregate");
        });
        all.put("table_aggregations_with_named_stores", b -> {
            final KGroupedTable<String, String> grouped =
                b.table("in", Consumed.with(S, S)).groupBy((k, v) -> KeyValue.pair(v, v), Grouped.with(S, S));
            grouped.count(Materialized.as("counts")).filter((k, v) -> true).toStream().to("count");
            grouped.reduce((a, v) -> v, (a, v) -> a, store("reduced")).toStream().to("reduce");
        });
        all.put("table_chain", b -> {
            final KTable<String, String> users = b.table("users", Consumed.with(S, S));
            users.filter((k, v) -> true).mapValues(v -> v)
                .join(b.table("plans", Consumed.with(S, S)), (v, w) -> v)
                .groupBy((k, v) -> KeyValue.pair(v, v)).count().toStream().to("out");
        });
    }

    private static void cogroups(final Map<String, Consumer<StreamsBuilder>> all) {
        all.put("cogroup_unnamed", b -> strings(b, "a").groupByKey().cogroup(DescribeTopologies::kept)
            .cogroup(strings(b, "b").groupByKey(), DescribeTopologies::kept)
            .cogroup(strings(b, "c").groupByKey(), DescribeTopologies::kept)
            .aggregate(() -> "").toStream().to("out"));
        all.put("cogroup_named", b -> strings(b, "a").groupByKey().cogroup(DescribeTopologies::kept)
            .cogroup(strings(b, "b").groupByKey(), DescribeTopologies::kept)
            .aggregate(() -> "", Named.as("both"), store("kept")).toStream().to("out"));
        all.put("cogroup_with_unnamed_materialized", b -> strings(b, "a").groupByKey().cogroup(DescribeTopologies::kept)
            .aggregate(() -> "", Materialized.with(S, S)).toStream().to("out"));
        all.put("cogroup_of_one_changed_key", b -> strings(b, "a").selectKey((k, v) -> v).groupByKey()
            .cogroup(DescribeTopologies::kept).cogroup(strings(b, "b").groupByKey(), DescribeTopologies::kept)
            .aggregate(() -> "").toStream().to("out"));
        all.put("cogroup_of_changed_keys_named", b -> strings(b, "a").groupBy((k, v) -> v, Grouped.as("by-a"))
            .cogroup(DescribeTopologies::kept)
            .cogroup(strings(b, "b").groupBy((k, v) -> v, Grouped.as("by-b")), DescribeTopologies::kept)
            .aggregate(() -> "", Named.as("both"), store("kept")).toStream().to("out"));
        all.put("cogroup_of_two_changed_keys_one_named", b -> strings(b, "a").groupBy((k, v) -> v)
            .cogroup(DescribeTopologies::kept)
            .cogroup(strings(b, "b").groupBy((k, v) -> v, Grouped.as("by-b")), DescribeTopologies::kept)
            .aggregate(() -> "", store("kept")).toStream().to("out"));
        all.put("cogroup_aggregated_twice", b -> {
            final CogroupedKStream<String, String> cogrouped = strings(b, "a").groupBy((k, v) -> v)
                .cogroup(DescribeTopologies::kept);
            cogrouped.cogroup(strings(b, "b").groupByKey(), DescribeTopologies::kept);
            cogrouped.aggregate(() -> "").toStream().to("out");
            cogrouped.windowedBy(MINUTE).aggregate(() -> "", Materialized.as("minutes")).toStream().to("windowed");
        });
        all.put("cogroups_of_one_grouped_stream", b -> {
            final KGroupedStream<String, String> one = strings(b, "a").groupBy((k, v) -> v, Grouped.as("by-a"));
            final KGroupedStream<String, String> two = strings(b, "b").groupByKey();
            one.cogroup(DescribeTopologies::kept).cogroup(two, DescribeTopologies::kept).aggregate(() -> "")
                .toStream().to("one");
            two.cogroup(DescribeTopologies::kept).cogroup(two, DescribeTopologies::kept).aggregate(() -> "")
                .toStream().to("two");
            two.count().toStream().to("three");
        });
        all.put("cogroup_of_one_topic_read_twice", b -> strings(b, "a").groupByKey().cogroup(DescribeTopologies::kept)
            .cogroup(strings(b, "a").filter((k, v) -> true).groupByKey(), DescribeTopologies::kept)
            .aggregate(() -> "").toStream().to("out"));
        all.put("joins_with_a_cogrouped_table", b -> {
            final KTable<String, String> both = strings(b, "a").groupByKey().cogroup(DescribeTopologies::kept)
                .cogroup(strings(b, "b").groupByKey(), DescribeTopologies::kept).aggregate(() -> "");
            both.leftJoin(b.table("c", Consumed.with(S, S)), (v, w) -> v).toStream().to("tables");
            strings(b, "d").join(both.filter((k, v) -> true), (v, w) -> v).to("stream");
            both.groupBy((k, v) -> KeyValue.pair(v, v)).count().toStream().to("regrouped");
        });
    }

    private static KStream<String, String> strings(final StreamsBuilder b, final String topic) {
        return b.stream(topic, Consumed.with(S, S));
    }

    private static String kept(final String key, final String value, final String aggregate) {
        return aggregate;
    }

    private static final class Kept implements ValueTransformerWithKey<String, String, String> {
        @Override
        public void init(final ProcessorContext context) { }

        @Override
        public String transform(final String key, final String value) {
            return value;
        }

        @Override
        public void close() { }
    }

    /** A topology of 40 operators, chosen and placed by a linear congruential generator. */
    private static void grow(final StreamsBuilder b, final int seed) {
        final long[] state = {seed};
        final java.util.function.IntUnaryOperator draw = below -> {
            state[0] = (state[0] * 1103515245L + 12345L) % (1L << 31);
            return (int) ((state[0] >> 8) % below);
        };
        final KTable<String, String> table = b.table("table", Consumed.with(S, S), Materialized.as("table"));
        final List<KStream<String, String>> streams = new java.util.ArrayList<>();
        for (int number = 0; number < 3; number++) {
            streams.add(b.stream("in-" + number, Consumed.with(S, S)));
        }
        for (int number = 0; number < 40; number++) {
            final KStream<String, String> stream = streams.get(draw.applyAsInt(streams.size()));
            switch (draw.applyAsInt(9)) {
                case 0 -> streams.add(stream.filter((k, v) -> true));
                case 1 -> streams.add(stream.mapValues(v -> v));
                case 2 -> streams.add(stream.selectKey((k, v) -> v));
                case 3 -> streams.add(stream.merge(streams.get(draw.applyAsInt(streams.size()))));
                case 4 -> streams.add(
                    stream.groupByKey(Grouped.with(S, S)).count().toStream().mapValues(v -> v.toString()));
                case 5 -> streams.add(stream.leftJoin(table, (v, t) -> v));
                case 6 -> {
                    final Map<String, KStream<String, String>> branches =
                        stream.split().branch((k, v) -> true).branch((k, v) -> true).defaultBranch();
                    new java.util.TreeMap<>(branches).values().forEach(streams::add);
                }
                case 7 -> stream.to("out-" + number);
                default -> streams.add(stream.toTable().toStream());
            }
        }
    }

    private static Map<String, Consumer<StreamsBuilder>> optimised() {
        final Map<String, Consumer<StreamsBuilder>> all = new LinkedHashMap<>();
        all.put("optimised_table_join", b ->
            b.stream("clicks").join(b.table("users"), (v, t) -> v).to("out"));
        all.put("optimised_aggregations", b -> {
            final KStream<String, String> keyed =
                b.stream("in", Consumed.with(S, S)).selectKey((k, v) -> v);
            keyed.groupByKey().count().toStream().to("out-count");
            keyed.filter((k, v) -> true).groupByKey().reduce((a, v) -> v).toStream().to("out-reduce");
        });
        all.put("optimised_named_aggregations", b -> {
            final KGroupedStream<String, String> grouped =
                b.stream("in", Consumed.with(S, S)).groupBy((k, v) -> v, Grouped.as("by-value"));
            grouped.count(Materialized.as("counts")).toStream().to("out-count");
            grouped.windowedBy(MINUTE).count(Materialized.as("windowed")).toStream().to("out-windowed");
        });
        all.put("optimised_value_change_between", b -> {
            final KStream<String, String> keyed =
                b.stream("in", Consumed.with(S, S)).map((k, v) -> KeyValue.pair(v, v));
            keyed.mapValues(v -> v).groupByKey().count().toStream().to("out-count");
            keyed.groupByKey().count().toStream().to("out-other");
        });
        all.put("optimised_merge", b -> {
            final KStream<String, String> one = b.stream("a", Consumed.with(S, S)).selectKey((k, v) -> v);
            final KStream<String, String> two = b.stream("b", Consumed.with(S, S)).selectKey((k, v) -> v);
            final KStream<String, String> both = one.merge(two);
            both.groupByKey(Grouped.with(S, S)).count().toStream().to("out-count");
            both.groupByKey(Grouped.with(S, S)).reduce((a, v) -> v).toStream().to("out-reduce");
        });
        all.put("optimised_named_behind_a_filter", b ->
            b.stream("in", Consumed.with(S, S)).selectKey((k, v) -> v, Named.as("re-key")).filter((k, v) -> true)
                .groupByKey(Grouped.as("by-value")).count(Materialized.as("counts")).toStream().to("out"));
        all.put("optimised_global_table_join", b -> {
            final GlobalKTable<String, String> users = b.globalTable("users", STRINGS);
            final KStream<String, String> keyed = b.stream("in", STRINGS).selectKey((k, v) -> v);
            keyed.leftJoin(users, (k, v) -> v, (v, o) -> v).groupByKey(Grouped.with(S, S)).count().toStream().to("out");
            keyed.groupByKey(Grouped.with(S, S)).reduce((a, v) -> v).toStream().to("out-reduce");
            b.table("t", STRINGS, Materialized.as("rows")).toStream().join(users, (k, v) -> v, (v, o) -> v)
                .to("out-table");
        });
        all.put("optimised_self_join", b -> {
            final KStream<String, String> a = b.stream("a", Consumed.with(S, S));
            a.join(a, (v, o) -> v, NEAR, StreamJoined.with(S, S, S).withStoreName("kept")).to("out");
        });
        all.put("optimised_self_joins_of_one_topic_read_twice", b -> {
            b.stream("a", Consumed.with(S, S))
                .leftJoin(b.stream("a", Consumed.with(S, S)), (v, o) -> v, NEAR, StreamJoined.with(S, S, S)).to("out");
            final KStream<String, String> keyed = b.stream("b", Consumed.with(S, S)).selectKey((k, v) -> v);
            keyed.outerJoin(keyed, (v, o) -> v, NEAR, StreamJoined.with(S, S, S).withName("self")).to("other");
        });
        all.put("optimised_stream_stream_join", b -> {
            final KStream<String, String> a = b.stream("a", Consumed.with(S, S)).selectKey((k, v) -> v);
            final KStream<String, String> other = b.stream("b", Consumed.with(S, S)).selectKey((k, v) -> v);
            a.leftJoin(other.filter((k, v) -> true), (v, o) -> v, NEAR, StreamJoined.with(S, S, S)).to("joined");
            a.groupByKey(Grouped.with(S, S)).count().toStream().to("counted");
            other.groupByKey(Grouped.with(S, S)).count().toStream().to("counted-too");
        });
        all.put("optimised_cogroup", b -> {
            final KStream<String, String> keyed = strings(b, "in").selectKey((k, v) -> v);
            final KGroupedStream<String, String> one = keyed.groupByKey(Grouped.as("one"));
            final KGroupedStream<String, String> two = keyed.filter((k, v) -> true).groupByKey(Grouped.as("two"));
            one.cogroup(DescribeTopologies::kept).cogroup(two, DescribeTopologies::kept)
                .cogroup(strings(b, "other").groupByKey(), DescribeTopologies::kept)
                .aggregate(() -> "").toStream().to("out");
            one.count().toStream().to("counted");
        });
        all.put("optimised_cogroup_of_one_key_change", b -> {
            final KStream<String, String> keyed = strings(b, "in").selectKey((k, v) -> v);
            keyed.groupByKey(Grouped.as("one")).cogroup(DescribeTopologies::kept)
                .cogroup(keyed.groupByKey(Grouped.as("two")), DescribeTopologies::kept)
                .windowedBy(MINUTE).aggregate(() -> "").toStream().to("out");
        });
        all.put("optimised_join_and_aggregation", b -> {
            final KStream<String, String> keyed = b.stream("in", Consumed.with(S, S)).selectKey((k, v) -> v);
            keyed.leftJoin(b.table("users", Consumed.with(S, S)), (v, t) -> v).to("joined");
            keyed.peek((k, v) -> { }).groupByKey().count().toStream().to("counted");
            keyed.toTable(Materialized.as("latest")).toStream().to("tabled");
        });
        all.put("optimised_versioned_table", b ->
            b.stream("clicks", Consumed.with(S, S)).join(b.table("users", Consumed.with(S, S), versions("user-versions")),
                (v, t) -> v, Joined.with(S, S, S).withGracePeriod(Duration.ofDays(1))).to("out"));
        all.putAll(ForeignKeyTopologies.optimised());
        return all;
    }
}
