package halfhitch.conformance;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A Kafka consumer with read_committed; headers are a message's properties. */
final class KafkaVisible extends Visible {
  private final KafkaConsumer<byte[], byte[]> consumer;

  KafkaVisible(String bootstrap, List<String> topics) {
    consumer =
        new KafkaConsumer<>(
            Map.of(
                "bootstrap.servers", bootstrap,
                "isolation.level", "read_committed",
                "enable.auto.commit", "false",
                "auto.offset.reset", "earliest",
                "fetch.max.wait.ms", "20"),
            new ByteArrayDeserializer(),
            new ByteArrayDeserializer());
    List<TopicPartition> places = new ArrayList<>();
    for (String topic : topics) {
      consumer
          .partitionsFor(topic)
          .forEach(found -> places.add(new TopicPartition(topic, found.partition())));
    }
    consumer.assign(places);
    consumer.seekToBeginning(places);
    begin();
  }

  @Override
  List<Seen> fetch() throws InterruptedException {
    List<Seen> fetched = new ArrayList<>();
    try {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
        fetched.add(seen(record));
      }
    } catch (InterruptException end) {
      throw new InterruptedException();
    }
    return fetched;
  }

  private static Seen seen(ConsumerRecord<byte[], byte[]> record) {
    Map<String, String> properties = new HashMap<>();
    for (Header header : record.headers()) {
      properties.put(header.key(), text(header.value()));
    }
    return new Seen(
        record.topic(),
        record.partition(),
        record.offset(),
        record.value(),
        text(record.key()),
        properties.get("TAGS"),
        properties,
        System.currentTimeMillis());
  }

  private static String text(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }

  @Override
  void release() {
    Thread.interrupted();
    consumer.close(Duration.ofSeconds(2));
  }
}
