import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * What Kafka Streams says of topologies with processors: as DescribeTopologies.java, for the topologies in
 * tests/unit/topology/test_describe_processors.py. Compile it with InternalTopics.java.
 */
public class DescribeProcessors {

    private static final Serde<String> S = Serdes.String();
    private static final StoreBuilder<?> BROUGHT =
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("brought"), Serdes.String(), Serdes.String());

    public static void main(final String[] arguments) throws IOException {
        final Path directory = Path.of(arguments[0]);
        for (final Map.Entry<String, Consumer<StreamsBuilder>> entry : written().entrySet()) {
            write(directory, entry.getKey(), built(entry.getValue(), StreamsConfig.NO_OPTIMIZATION));
        }
        for (final Map.Entry<String, Consumer<StreamsBuilder>> entry : optimised().entrySet()) {
            write(directory, entry.getKey(), built(entry.getValue(), StreamsConfig.OPTIMIZE));
        }
        for (final Map.Entry<String, Topology> entry : byHand().entrySet()) {
            write(directory, entry.getKey(), entry.getValue());
        }
    }

    private static Topology built(final Consumer<StreamsBuilder> write, final String optimisation) {
        final Properties properties = properties(optimisation);
        // Without it a repartition topic is moved in front of a processor that changes keys (KAFKA-19668).
        properties.put(TopologyConfig.InternalConfig.ENABLE_PROCESS_PROCESSVALUE_FIX, true);
        final StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(properties)));
        write.accept(builder);
        return builder.build(properties);
    }

    private static Properties properties(final String optimisation) {
        final Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
        properties.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, optimisation);
        return properties;
    }

    private static void write(final Path directory, final String name, final Topology topology) throws IOException {
        final Properties properties = properties(StreamsConfig.NO_OPTIMIZATION);
        Files.writeString(directory.resolve(name + ".txt"), topology.describe().toString() + "----\n"
            + InternalTopics.of(topology, properties) + "----\n" + InternalTopics.changelogSettings(topology, properties));
    }

    private static StoreBuilder<?> keyValue(final String name) {
        return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), S, S);
    }

    private static StoreBuilder<?> window(final String name) {
        return Stores.windowStoreBuilder(
            Stores.persistentWindowStore(name, Duration.ofHours(1), Duration.ofMinutes(1), false), S, S);
    }

    private static StoreBuilder<?> session(final String name) {
        return Stores.sessionStoreBuilder(Stores.persistentSessionStore(name, Duration.ofHours(2)), S, S);
    }

    private static final class Pass extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(final Record<String, String> record) {
            context().forward(record);
        }
    }

    private static final class Fill extends ContextualProcessor<String, String, Void, Void> {
        @Override
        public void process(final Record<String, String> record) { }
    }

    private static final class PassObjects extends ContextualProcessor<Object, Object, Object, Object> {
        @Override
        public void process(final Record<Object, Object> record) {
            context().forward(record);
        }
    }

    private static final class PassValues extends ContextualFixedKeyProcessor<String, String, String> {
        @Override
        public void process(final FixedKeyRecord<String, String> record) {
            context().forward(record);
        }
    }

    private static final class WithStores implements ProcessorSupplier<String, String, String, String> {
        @Override
        public Processor<String, String, String, String> get() {
            return new Pass();
        }

        @Override
        public Set<StoreBuilder<?>> stores() {
            return Set.of(BROUGHT);
        }
    }

    private static final class Transform implements ValueTransformerWithKey<String, String, String> {
        @Override
        public void init(final org.apache.kafka.streams.processor.ProcessorContext context) { }

        @Override
        public String transform(final String key, final String value) {
            return value;
        }

        @Override
        public void close() { }
    }

    private static Map<String, Consumer<StreamsBuilder>> written() {
        final Map<String, Consumer<StreamsBuilder>> all = new LinkedHashMap<>();
        all.put("process_unnamed", b -> b.stream("in", Consumed.with(S, S)).process(Pass::new).to("out"));
        all.put("process_named_with_stores", b -> {
            b.addStateStore(keyValue("one")).addStateStore(window("two")).addStateStore(session("three"));
            b.stream("in", Consumed.with(S, S)).process(Pass::new, Named.as("mine"), "one", "two", "three").to("out");
        });
        all.put("process_and_aggregate", b -> {
            final KStream<String, String> stream = b.stream("in", Consumed.with(S, S));
            stream.process(Pass::new).groupByKey(Grouped.with(S, S)).count().toStream().to("out");
            stream.processValues(PassValues::new).groupByKey(Grouped.with(S, S)).count().toStream().to("out-values");
        });
        all.put("process_values_named_after_key_change", b -> {
            b.addStateStore(keyValue("one"));
            b.stream("in", Consumed.with(S, S)).selectKey((k, v) -> v)
                .processValues(PassValues::new, Named.as("values"), "one").groupByKey(Grouped.with(S, S)).count()
                .toStream().to("out");
        });
        all.put("processes_that_share_a_store", b -> {
            b.addStateStore(keyValue("shared"));
            b.stream("a", Consumed.with(S, S)).process(Pass::new, "shared").to("out");
            b.stream("b", Consumed.with(S, S)).process(Pass::new, "shared").to("out");
            b.stream("c", Consumed.with(S, S)).process(Pass::new).to("out");
        });
        all.put("process_with_the_store_of_a_table", b -> {
            final KTable<String, String> table = b.table("users", Consumed.with(S, S), Materialized.as("users-store"));
            b.stream("in", Consumed.with(S, S)).process(Pass::new, "users-store").to("out");
            table.toStream().to("changes");
        });
        all.put("process_with_a_supplier_that_brings_stores", b -> {
            b.stream("in", Consumed.with(S, S)).process(new WithStores()).to("out");
            b.stream("other", Consumed.with(S, S)).process(new WithStores()).to("out");
        });
        all.put("global_store_that_a_processor_fills", b -> {
            b.stream("in", Consumed.with(S, S)).process(Pass::new).to("out");
            b.addGlobalStore(keyValue("kept"), "everywhere", Consumed.with(S, S), Fill::new);
            b.addGlobalStore(keyValue("named"), "more", Consumed.with(S, S).withName("mine"), Fill::new);
        });
        all.put("transform_values_with_a_store", b -> {
            b.addStateStore(keyValue("one"));
            final KTable<String, String> table = b.table("users", Consumed.with(S, S));
            table.transformValues(Transform::new, "one").toStream().to("out");
            table.transformValues(Transform::new, Materialized.as("kept"), Named.as("named"), "one")
                .groupBy((k, v) -> org.apache.kafka.streams.KeyValue.pair(v, k), Grouped.with(S, S)).count()
                .toStream().to("counts");
        });
        return all;
    }

    private static Map<String, Consumer<StreamsBuilder>> optimised() {
        final Map<String, Consumer<StreamsBuilder>> all = new LinkedHashMap<>();
        all.put("optimised_processes_between", b -> {
            final KStream<String, String> keyed = b.stream("in", Consumed.with(S, S)).process(Pass::new);
            keyed.filter((k, v) -> true).groupByKey(Grouped.with(S, S)).count().toStream().to("one");
            keyed.processValues(PassValues::new).groupByKey(Grouped.with(S, S)).count().toStream().to("two");
            keyed.groupByKey(Grouped.with(S, S)).reduce((o, v) -> v).toStream().to("three");
        });
        return all;
    }

    private static Map<String, Topology> byHand() {
        final Map<String, Topology> all = new LinkedHashMap<>();
        all.put("by_hand_in_a_row", new Topology()
            .addSource("source", "in").addProcessor("process", PassObjects::new, "source").addSink("sink", "out", "process"));
        all.put("by_hand_with_stores", new Topology()
            .addSource("z-source", "in", "also").addSource("a-source", "other").addSource("m-source", "third")
            .addProcessor("first", PassObjects::new, "z-source")
            .addProcessor("second", PassObjects::new, "a-source", "first")
            .addProcessor("third", PassObjects::new, "m-source")
            .addStateStore(keyValue("kept"), "first")
            .addStateStore(window("windows"), "second", "first")
            .addStateStore(session("unused"))
            .addSink("sink", "out", "first", "second", "third")
            .addSink("end", "end", "first")
            .addSource("apart", "apart").addProcessor("alone", PassObjects::new, "apart"));
        all.put("by_hand_with_a_global_store", new Topology()
            .addSource("source", "in")
            .addGlobalStore(keyValue("kept").withLoggingDisabled(), "global-source", S.deserializer(), S.deserializer(),
                "everywhere", "global-processor", Fill::new)
            .addProcessor("process", PassObjects::new, "source").addSink("sink", "out", "process"));
        all.put("by_hand_joined_by_a_store", new Topology()
            .addSource("b", "in-b").addSource("a", "in-a").addSource("c", "in-c")
            .addProcessor("of-b", PassObjects::new, "b").addProcessor("of-a", PassObjects::new, "a")
            .addProcessor("of-c", PassObjects::new, "c")
            .addStateStore(keyValue("shared"), "of-c")
            .connectProcessorAndStateStores("of-b", "shared")
            .addSink("to-a", "out", "of-a").addSink("to-b", "out", "of-b"));
        return all;
    }
}
