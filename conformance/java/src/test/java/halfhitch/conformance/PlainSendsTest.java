package halfhitch.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Messages without a transaction: one producer per application is enough. */
class PlainSendsTest {
  private static DefaultMQProducer producer() throws MQClientException {
    DefaultMQProducer producer = new DefaultMQProducer(Server.fresh("plain"));
    producer.setNamesrvAddr(Server.nameServer());
    producer.setInstanceName(Server.fresh("plain"));
    producer.setSendMsgTimeout(30_000);
    producer.start();
    return producer;
  }

  @Test
  @Tag("quick")
  void syncAsyncOnewayAndBatch() throws Exception {
    String topic = Server.createTopic("plain", 4);
    DefaultMQProducer producer = producer();
    try (Observed observed = new Observed("plain-sends");
        Visible visible = Server.visible(topic)) {
      List<String> statuses = new ArrayList<>();
      ConcurrentLinkedQueue<String> asyncStatuses = new ConcurrentLinkedQueue<>();
      CountDownLatch answered = new CountDownLatch(10);
      for (int n = 0; n < 10; n++) {
        statuses.add(producer.send(Application.message(topic, n)).getSendStatus().name());
        producer.send(
            Application.message(topic, 10 + n),
            new SendCallback() {
              @Override
              public void onSuccess(SendResult sent) {
                asyncStatuses.add(sent.getSendStatus().name());
                answered.countDown();
              }

              @Override
              public void onException(Throwable problem) {
                asyncStatuses.add(problem.toString());
                answered.countDown();
              }
            });
        producer.sendOneway(Application.message(topic, 20 + n));
      }
      List<Message> batch = new ArrayList<>();
      for (int n = 30; n < 40; n++) {
        Message message = Application.message(topic, n);
        message.setKeys("key-" + n);
        batch.add(message);
      }
      SendResult sent = producer.send(batch);
      assertTrue(answered.await(20, TimeUnit.SECONDS));
      boolean isVisible = visible.awaitCount(40, 20_000);
      observed.put("sync", statuses.stream().distinct().toList());
      observed.put("async", asyncStatuses.stream().distinct().toList());
      observed.put("batch", sent.getSendStatus().name());
      observed.put("ids in the answer to the batch", sent.getMsgId().split(",").length);
      observed.put("visible", visible.counts("n").size()).put("doubled", visible.doubledCount());
      observed.put(
          "batch is in one queue, in order",
          isInOrder(visible.all().stream().filter(one -> one.keys() != null).toList()));
      assertTrue(isVisible);
    } finally {
      producer.shutdown();
    }
  }

  private static boolean isInOrder(List<Seen> seen) {
    for (int i = 1; i < seen.size(); i++) {
      Seen one = seen.get(i - 1);
      Seen next = seen.get(i);
      if (one.queue() != next.queue()
          || one.place() + 1 != next.place()
          || Integer.parseInt(one.property("n")) + 1 != Integer.parseInt(next.property("n"))) {
        return false;
      }
    }
    return !seen.isEmpty();
  }

  @Test
  @Tag("quick")
  void aChosenQueueIsKeptAndInOrder() throws Exception {
    String topic = Server.createTopic("queue", 4);
    DefaultMQProducer producer = producer();
    try (Observed observed = new Observed("chosen-queue");
        Visible visible = Server.visible(topic)) {
      Map<Integer, Long> places = new TreeMap<>();
      boolean isAnsweredRightly = true;
      for (int n = 0; n < 40; n++) {
        SendResult sent =
            producer.send(
                Application.message(topic, n),
                (queues, message, chosen) ->
                    queues.stream()
                        .filter(one -> one.getQueueId() == (Integer) chosen)
                        .findFirst()
                        .orElseThrow(),
                n % 4);
        MessageQueue queue = sent.getMessageQueue();
        isAnsweredRightly &= queue.getQueueId() == n % 4;
        Long before = places.put(queue.getQueueId(), sent.getQueueOffset());
        isAnsweredRightly &= before == null || before + 1 == sent.getQueueOffset();
      }
      assertTrue(visible.awaitCount(40, 20_000));
      boolean isKept =
          visible.all().stream()
              .allMatch(one -> one.queue() == Integer.parseInt(one.property("n")) % 4);
      observed.put("queues of the route", producer.fetchPublishMessageQueues(topic).size());
      observed.put("queue and place in the answers are right", isAnsweredRightly);
      observed.put("queue is kept", isKept).put("visible", visible.counts("n").size());
      assertTrue(isKept);
    } finally {
      producer.shutdown();
    }
  }

  @Test
  @Tag("quick")
  void aTransactionsMessageKeepsTheQueueItsAnswerNames() throws Exception {
    String topic = Server.createTopic("kept", 4);
    try (Observed observed = new Observed("queue-of-a-transaction");
        Visible visible = Server.visible(topic);
        Application application = new Application(Server.fresh("kept")).start()) {
      for (int n = 0; n < 20; n++) {
        application.send(topic, n);
      }
      assertTrue(visible.awaitCount(20, 20_000));
      boolean isKept =
          visible.all().stream()
              .allMatch(
                  one ->
                      one.queue()
                          == application
                              .resultOf(Integer.parseInt(one.property("n")))
                              .getMessageQueue()
                              .getQueueId());
      observed.put("queue is kept", isKept);
      observed.put(
          "queues in use", visible.all().stream().map(Seen::queue).distinct().count());
      assertTrue(isKept);
    }
  }

  @Test
  @Tag("quick")
  void aTopicThatIsNotThere() throws Exception {
    DefaultMQProducer producer = producer();
    try (Observed observed = new Observed("unknown-topic")) {
      String outcome;
      try {
        outcome = producer.send(Application.message(Server.fresh("nowhere"), 0)).getSendStatus().name();
      } catch (MQClientException refused) {
        outcome = "refused";
      }
      observed.put("outcome", outcome);
    } finally {
      producer.shutdown();
    }
  }

  @Test
  @Tag("quick")
  void tracingMayBeOn() throws Exception {
    String topic = Server.createTopic("traced", 1);
    DefaultMQProducer producer =
        new DefaultMQProducer(Server.fresh("traced"), null, true, null);
    producer.setNamesrvAddr(Server.nameServer());
    producer.setInstanceName(Server.fresh("traced"));
    producer.start();
    try (Observed observed = new Observed("tracing");
        Visible visible = Server.visible(topic)) {
      for (int n = 0; n < 10; n++) {
        producer.send(Application.message(topic, n));
      }
      boolean isVisible = visible.awaitCount(10, 20_000);
      observed.put("visible", visible.counts("n").size());
      assertTrue(isVisible);
    } finally {
      producer.shutdown();
    }
  }

  @Test
  void allQueuesOfATopicAreUsed() throws Exception {
    String topic = Server.createTopic("manyqueues", 16);
    try (Observed observed = new Observed("many-queues");
        Visible visible = Server.visible(topic);
        Application application = new Application(Server.fresh("manyqueues")).start()) {
      for (int n = 0; n < 64; n++) {
        application.send(topic, n);
      }
      assertTrue(visible.awaitCount(64, 20_000));
      observed.put("queues in use", visible.all().stream().map(Seen::queue).distinct().count());
      observed.put("visible", visible.counts("n").size());
      assertEquals(64, visible.counts("n").size());
    }
  }
}
