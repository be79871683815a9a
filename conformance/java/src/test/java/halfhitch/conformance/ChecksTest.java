package halfhitch.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** When checks come, what they carry, and who gets them when producers come and go. */
class ChecksTest {
  private static final LocalTransactionState COMMIT = LocalTransactionState.COMMIT_MESSAGE;
  private static final LocalTransactionState UNKNOWN = LocalTransactionState.UNKNOW;
  private static final int LONG_IMMUNITY_S = 10;

  @Test
  @Tag("quick")
  void aCheckCarriesTheMessageAsItWasSent() throws Exception {
    String topic = Server.createTopic("carries", 4);
    try (Observed observed = new Observed("message-in-check");
        Visible visible = Server.visible(topic);
        Application application =
            new Application(Server.fresh("carries"))
                .executing(message -> UNKNOWN)
                .checking((message, number) -> number == 1 ? UNKNOWN : COMMIT)
                .start()) {
      Message message = Application.message(topic, 0);
      message.setTags("paid");
      message.setKeys(List.of("order-17", "customer-4"));
      message.setFlag(42);
      message.putUserProperty("city", "K\u00f8benhavn \u6771\u4eac");
      String id = application.send(message).getMsgId();
      assertTrue(visible.awaitCount(1, 30_000));
      MessageExt asked = application.checks().get(0).message();
      MessageExt second = application.checks().get(1).message();
      observed.put("body", new String(asked.getBody()));
      observed.put("topic is the message's", asked.getTopic().equals(topic));
      observed.put("tags", asked.getTags());
      observed.put("keys", asked.getKeys());
      observed.put("city", asked.getUserProperty("city"));
      observed.put("flag", asked.getFlag());
      observed.put("flag in the second check", second.getFlag());
      observed.put("transaction id is the message's id", asked.getTransactionId().equals(id));
      observed.put("number", asked.getProperty("TRANSACTION_CHECK_TIMES"));
      observed.put("number of the second", second.getProperty("TRANSACTION_CHECK_TIMES"));
      observed.put("group", asked.getProperty("PGROUP").startsWith("carries"));
      assertEquals("message 0", new String(asked.getBody()));
      assertEquals("K\u00f8benhavn \u6771\u4eac", asked.getUserProperty("city"));
      assertEquals(id, asked.getTransactionId());
    }
  }

  @Test
  void aMessageMayAskForALaterFirstCheck() throws Exception {
    String topic = Server.createTopic("immunity", 1);
    try (Observed observed = new Observed("immunity");
        Visible visible = Server.visible(topic);
        Application application =
            new Application(Server.fresh("immunity"))
                .executing(message -> UNKNOWN)
                .checking((message, number) -> COMMIT)
                .start()) {
      Message message = Application.message(topic, 0);
      message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "" + LONG_IMMUNITY_S);
      long sentMs = System.currentTimeMillis();
      application.send(message);
      boolean isVisible = visible.awaitCount(1, 60_000);
      List<Application.Check> checks = application.checks();
      long firstMs = checks.isEmpty() ? -1 : checks.get(0).atMs() - sentMs;
      observed.put("visible", visible.all().size()).put("firstCheckMs", firstMs);
      observed.put("not before its time", firstMs >= LONG_IMMUNITY_S * 1_000L);
      observed.put("number in the first check", checks.isEmpty() ? "none" : checks.get(0).times());
      if (Server.isHalfHitch()) {
        assertTrue(isVisible);
        assertTrue(firstMs >= LONG_IMMUNITY_S * 1_000L, "first check after " + firstMs + " ms");
      }
    }
  }

  @Test
  void aCommitWithinALongImmunityEndsTheChecks() throws Exception {
    String topic = Server.createTopic("immune-commit", 1);
    try (Observed observed = new Observed("commit-within-immunity");
        Visible visible = Server.visible(topic);
        Application application =
            new Application(Server.fresh("immune-commit"))
                .executing(message -> UNKNOWN)
                .checking((message, number) -> UNKNOWN)
                .start()) {
      Message message = Application.message(topic, 0);
      message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "" + LONG_IMMUNITY_S);
      application.send(message);
      // Several check passes later, and still within its immunity.
      Thread.sleep(LONG_IMMUNITY_S * 1_000L - 4_500);
      application.end(message, COMMIT);
      assertTrue(visible.awaitCount(1, 20_000));
      application.awaitQuiet(4L * Server.INTERVAL_MS + 4_000, 40_000);
      observed.put("visible", visible.all().size()).put("checks", application.checks().size());
      if (Server.isHalfHitch()) {
        assertEquals(0, application.checks().size());
      }
    }
  }

  @Test
  @Tag("quick")
  void aProducerThatComesAgainAnswersForItsPast() throws Exception {
    String topic = Server.createTopic("again", 2);
    String group = Server.fresh("again");
    try (Observed observed = new Observed("producer-restart");
        Visible visible = Server.visible(topic)) {
      Application before = new Application(group).executing(message -> UNKNOWN).start();
      for (int n = 0; n < 10; n++) {
        before.send(topic, n);
      }
      before.close();
      try (Application after =
          new Application(group).checking((message, number) -> COMMIT).start()) {
        // It says that it is there by its first message, as programs do.
        after.send(topic, 10);
        boolean isVisible = visible.awaitCount(11, 30_000);
        observed.put("visible", visible.counts("n").size()).put("doubled", visible.doubledCount());
        observed.put(
            "checks after the restart",
            Application.checkNumbers(after.checks(), IntStream.range(0, 10).boxed().toList()));
        assertTrue(isVisible);
      }
    }
  }

  @Test
  void aGroupIsAwayForLongerThanAllChecksTake() throws Exception {
    String topic = Server.createTopic("away", 2);
    String group = Server.fresh("away");
    try (Observed observed = new Observed("group-away");
        Visible visible = Server.visible(topic)) {
      Application before = new Application(group).executing(message -> UNKNOWN).start();
      for (int n = 0; n < 10; n++) {
        before.send(topic, n);
      }
      before.close();
      Thread.sleep(Server.IMMUNITY_MS + (Server.CHECK_MAX + 4L) * Server.INTERVAL_MS);
      try (Application after =
          new Application(group).checking((message, number) -> COMMIT).start()) {
        after.send(topic, 10);
        visible.awaitCount(11, 20_000);
        observed.put("visible of 10", visible.counts("n").size() - 1);
        Map<String, Integer> times = new TreeMap<>();
        after.checks().forEach(one -> times.merge(one.times(), 1, Integer::sum));
        observed.put("numbers in checks", times);
        if (Server.isHalfHitch()) {
          assertEquals(11, visible.counts("n").size());
        }
      }
    }
  }
}
