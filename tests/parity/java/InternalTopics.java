import java.lang.reflect.Field;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder;

/** Names of the internal topics of a topology, read from Kafka Streams' own (not public) builder. */
final class InternalTopics {

    private InternalTopics() {
    }

    /** Name and settings of each topic between two sub-topologies, one a line. */
    static String repartitionSettings(final Topology topology, final Properties properties) {
        try {
            final Field field = Topology.class.getDeclaredField("internalTopologyBuilder");
            field.setAccessible(true);
            final InternalTopologyBuilder builder = (InternalTopologyBuilder) field.get(topology);
            builder.rewriteTopology(new StreamsConfig(properties));
            builder.buildTopology();
            final TreeSet<String> lines = new TreeSet<>();
            builder.subtopologyToTopicsInfo().values().forEach(topics -> topics.repartitionSourceTopics.forEach(
                (name, config) -> lines.add(name + " " + new TreeMap<>(config.properties(Map.of(), 86_400_000L)) + "\n")));
            return String.join("", lines);
        } catch (final ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Name and settings of each changelog, one a line. */
    static String changelogSettings(final Topology topology, final Properties properties) {
        try {
            final Field field = Topology.class.getDeclaredField("internalTopologyBuilder");
            field.setAccessible(true);
            final InternalTopologyBuilder builder = (InternalTopologyBuilder) field.get(topology);
            builder.rewriteTopology(new StreamsConfig(properties));
            builder.buildTopology();
            final TreeSet<String> lines = new TreeSet<>();
            builder.subtopologyToTopicsInfo().values().forEach(topics -> topics.stateChangelogTopics.forEach(
                (name, config) -> lines.add(name + " " + new TreeMap<>(config.properties(Map.of(), 86_400_000L)) + "\n")));
            return String.join("", lines);
        } catch (final ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Settings of the repartition and changelog topics of a driver's topology, by name; not of source topics. */
    static Map<String, Map<String, String>> settings(final TopologyTestDriver driver) {
        try {
            final Field field = TopologyTestDriver.class.getDeclaredField("internalTopologyBuilder");
            field.setAccessible(true);
            final InternalTopologyBuilder builder = (InternalTopologyBuilder) field.get(driver);
            final Map<String, Map<String, String>> settings = new TreeMap<>();
            builder.subtopologyToTopicsInfo().values().forEach(topics -> {
                topics.nonSourceChangelogTopics().forEach(config ->
                    settings.put(config.name(), config.properties(Map.of(), 86_400_000L)));
                topics.repartitionSourceTopics.forEach((name, config) ->
                    settings.put(name, config.properties(Map.of(), 86_400_000L)));
            });
            return settings;
        } catch (final ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static String of(final Topology topology, final Properties properties) {
        try {
            final Field field = Topology.class.getDeclaredField("internalTopologyBuilder");
            field.setAccessible(true);
            final InternalTopologyBuilder builder = (InternalTopologyBuilder) field.get(topology);
            builder.rewriteTopology(new StreamsConfig(properties));
            builder.buildTopology();
            final StringBuilder text = new StringBuilder();
            final Map<Integer, InternalTopologyBuilder.TopicsInfo> parts = new TreeMap<>();
            for (final var entry : builder.subtopologyToTopicsInfo().entrySet()) {
                final Field number = entry.getKey().getClass().getDeclaredField("nodeGroupId");
                number.setAccessible(true);
                parts.put(number.getInt(entry.getKey()), entry.getValue());
            }
            parts.forEach((part, topics) -> text
                .append(part)
                .append(" repartition ").append(new TreeSet<>(topics.repartitionSourceTopics.keySet()))
                .append(" changelog ").append(new TreeSet<>(topics.stateChangelogTopics.keySet()))
                .append('\n'));
            final TreeSet<String> groups = new TreeSet<>();
            builder.copartitionGroups().stream().filter(group -> group.size() > 1)
                .forEach(group -> groups.add(new TreeSet<>(group).toString()));
            groups.forEach(group -> text.append("co-partitioned ").append(group).append('\n'));
            return text.toString();
        } catch (final ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
