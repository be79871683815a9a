package halfhitch.conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** RocketMQ's own pulling consumer, on all queues from their beginning. */
final class RocketMqVisible extends Visible {
  private static final long ROUTE_MS = 20_000;
  private final DefaultLitePullConsumer consumer;

  RocketMqVisible(String nameServer, List<String> topics) {
    consumer = new DefaultLitePullConsumer(Server.fresh("visible"));
    consumer.setNamesrvAddr(nameServer);
    consumer.setInstanceName(Server.fresh("visible"));
    consumer.setAutoCommit(false);
    consumer.setPullBatchSize(32);
    // Failures (a restarted broker) must not hold it back for as long as the default says.
    consumer.setPollTimeoutMillis(200);
    try {
      consumer.start();
      List<MessageQueue> queues = new ArrayList<>();
      for (String topic : topics) {
        queues.addAll(tried(() -> consumer.fetchMessageQueues(topic)));
      }
      consumer.assign(queues);
      for (MessageQueue queue : queues) {
        tried(
            () -> {
              consumer.seekToBegin(queue);
              return null;
            });
      }
    } catch (MQClientException problem) {
      throw new IllegalStateException(problem);
    }
    begin();
  }

  private interface Asking<T> {
    T ask() throws MQClientException;
  }

  /** Tried again: the route of a new topic takes a moment from the broker to the name server. */
  private static <T> T tried(Asking<T> asking) throws MQClientException {
    long endMs = System.currentTimeMillis() + ROUTE_MS;
    while (true) {
      try {
        return asking.ask();
      } catch (MQClientException problem) {
        if (System.currentTimeMillis() > endMs) {
          throw problem;
        }
      }
    }
  }

  @Override
  List<Seen> fetch() {
    List<Seen> fetched = new ArrayList<>();
    for (MessageExt message : consumer.poll(200)) {
      fetched.add(seen(message));
    }
    return fetched;
  }

  private static Seen seen(MessageExt message) {
    return new Seen(
        message.getTopic(),
        message.getQueueId(),
        message.getQueueOffset(),
        message.getBody(),
        message.getKeys(),
        message.getTags(),
        Map.copyOf(message.getProperties()),
        System.currentTimeMillis());
  }

  @Override
  void release() {
    consumer.shutdown();
  }
}
