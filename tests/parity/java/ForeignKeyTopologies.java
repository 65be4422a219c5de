import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TableJoined;

/** The topologies with joins of tables by a foreign key. */
final class ForeignKeyTopologies {

    private static final Serde<String> S = Serdes.String();

    private ForeignKeyTopologies() {
    }

    static Map<String, Consumer<StreamsBuilder>> catalogue() {
        final Map<String, Consumer<StreamsBuilder>> all = new LinkedHashMap<>();
        all.put("foreign_key_join", b -> table(b, "orders")
            .join(table(b, "customers"), v -> v, (v, o) -> v).toStream().to("out"));
        all.put("foreign_key_left_join_named", b -> b.table("orders", Consumed.with(S, S), Materialized.as("orders"))
            .leftJoin(b.table("customers", Consumed.with(S, S), Materialized.as("customers")), (k, v) -> k, (v, o) -> v,
                TableJoined.as("by-customer"), Materialized.as("joined"))
            .toStream().to("out"));
        all.put("foreign_key_join_with_unnamed_materialized", b -> table(b, "orders")
            .join(table(b, "customers"), (k, v) -> v, (v, o) -> v, TableJoined.as("by-customer"),
                Materialized.with(S, S))
            .filter((k, v) -> true).toStream().to("out"));
        all.put("foreign_key_join_with_itself", b -> {
            final KTable<String, String> tasks = table(b, "tasks");
            tasks.join(tasks, v -> v, (v, o) -> v).toStream().to("out");
        });
        all.put("foreign_key_joins_of_one_table", b -> {
            final KTable<String, String> orders = table(b, "orders");
            orders.join(table(b, "customers"), v -> v, (v, o) -> v).toStream().to("out");
            orders.leftJoin(table(b, "products"), v -> v, (v, o) -> v).toStream().to("other");
        });
        all.put("foreign_key_joins_in_a_row", b -> table(b, "orders")
            .join(table(b, "customers"), v -> v, (v, o) -> v, Materialized.with(S, S))
            .leftJoin(table(b, "countries"), v -> v, (v, o) -> v, Materialized.with(S, S))
            .join(table(b, "notes"), (v, o) -> v).toStream().to("out"));
        all.put("foreign_key_join_of_changed_tables", b -> {
            final KTable<String, String> orders =
                table(b, "orders").filter((k, v) -> true).mapValues(v -> v, Materialized.with(S, S));
            final KTable<String, Long> counts =
                b.stream("clicks", Consumed.with(S, S)).groupBy((k, v) -> v, Grouped.with(S, S)).count();
            orders.leftJoin(counts, v -> v, (v, o) -> v, Materialized.with(S, S))
                .groupBy((k, v) -> org.apache.kafka.streams.KeyValue.pair(v, k), Grouped.with(S, S)).count()
                .toStream().to("out");
        });
        all.put("foreign_key_join_of_re_keyed_streams", b -> {
            final KTable<String, String> orders =
                b.stream("orders", Consumed.with(S, S)).selectKey((k, v) -> v).toTable(Materialized.with(S, S));
            final KTable<String, String> customers =
                b.stream("customers", Consumed.with(S, S)).selectKey((k, v) -> v).toTable(Materialized.with(S, S));
            orders.join(customers, v -> v, (v, o) -> v).toStream().to("out");
        });
        return all;
    }

    static Map<String, Consumer<StreamsBuilder>> optimised() {
        final Map<String, Consumer<StreamsBuilder>> all = new LinkedHashMap<>();
        all.put("optimised_foreign_key_join", b -> {
            final KTable<String, String> orders = table(b, "orders");
            orders.join(table(b, "customers"), v -> v, (v, o) -> v, TableJoined.as("by-customer")).toStream().to("out");
            b.stream("clicks", Consumed.with(S, S)).selectKey((k, v) -> v).toTable(Materialized.with(S, S))
                .leftJoin(orders, v -> v, (v, o) -> v).toStream().to("other");
        });
        return all;
    }

    private static KTable<String, String> table(final StreamsBuilder b, final String topic) {
        return b.table(topic, Consumed.with(S, S));
    }
}
