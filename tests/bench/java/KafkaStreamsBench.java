import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/**
 * Counts payments per user and minute with Kafka Streams, exactly once, until it is terminated.
 *
 * <p>Arguments: bootstrap servers, application id, input topic, output topic, state directory, window and grace in
 * milliseconds, whether payments go through a repartition topic, then any number of {@code key=value} settings that override the defaults.
 */
public final class KafkaStreamsBench {
    /** A payment as the input topic has it; Jackson fills all of it, as an application would have it. */
    public record Payment(String user, double amount, String currency, String country, String merchant, long at) {}

    private KafkaStreamsBench() {}

    private static Serde<Payment> paymentSerde() {
        final ObjectMapper mapper = new ObjectMapper();
        final ObjectReader reader = mapper.readerFor(Payment.class);
        final ObjectWriter writer = mapper.writerFor(Payment.class);
        final Deserializer<Payment> deserializer = (topic, data) -> {
            try {
                return data == null ? null : reader.readValue(data);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        };
        return Serdes.serdeFrom(
            (topic, payment) -> {
                try {
                    return payment == null ? null : writer.writeValueAsBytes(payment);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            },
            deserializer);
    }

    private static Properties settings(final String[] args) {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        for (int i = 8; i < args.length; i++) {
            final int equals = args[i].indexOf('=');
            settings.put(args[i].substring(0, equals), args[i].substring(equals + 1));
        }
        return settings;
    }

    public static void main(final String[] args) throws InterruptedException {
        final String input = args[2];
        final String output = args[3];
        final Duration size = Duration.ofMillis(Long.parseLong(args[5]));
        final Duration grace = Duration.ofMillis(Long.parseLong(args[6]));
        final boolean throughRepartition = Boolean.parseBoolean(args[7]);

        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, Payment> payments = builder.stream(input, Consumed.with(Serdes.String(), paymentSerde()))
            // Always true. It makes every contestant read the payment: without it a lazy one could skip the JSON.
            .filter((user, payment) -> payment.amount() > 0);
        (throughRepartition ? payments.repartition(Repartitioned.with(Serdes.String(), paymentSerde())) : payments)
            .groupByKey(Grouped.with(Serdes.String(), paymentSerde()))
            .windowedBy(TimeWindows.ofSizeAndGrace(size, grace))
            .count()
            .toStream()
            .to(output, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, size.toMillis()), Serdes.Long()));

        final KafkaStreams streams = new KafkaStreams(builder.build(), settings(args));
        final CountDownLatch terminated = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
            terminated.countDown();
        }));
        streams.start();
        terminated.await();
    }
}
