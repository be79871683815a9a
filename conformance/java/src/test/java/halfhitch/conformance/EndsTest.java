package halfhitch.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** More than one end of a transaction, late ends, and what an end that asks is answered. */
class EndsTest {
  private static final LocalTransactionState COMMIT = LocalTransactionState.COMMIT_MESSAGE;
  private static final LocalTransactionState ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE;
  private static final LocalTransactionState UNKNOWN = LocalTransactionState.UNKNOW;
  private static final long SETTLED_MS = 3_000;

  /** A message whose visibility says that all that was ended before it has been carried out. */
  private static void awaitLater(Application application, Visible visible, String topic)
      throws Exception {
    application.executing(message -> COMMIT).send(topic, 1_000);
    assertTrue(
        visible.await(seen -> Visible.counts(seen, "n").containsKey("1000"), 20_000),
        "the message after it");
    Thread.sleep(SETTLED_MS);
  }

  private static int copies(Visible visible, int n) {
    return visible.counts("n").getOrDefault(Integer.toString(n), 0);
  }

  @Test
  @Tag("quick")
  void aSecondCommit() throws Exception {
    String topic = Server.createTopic("twice", 1);
    try (Observed observed = new Observed("commit-twice");
        Visible visible = Server.visible(topic);
        Application application = new Application(Server.fresh("twice")).start()) {
      Message message = Application.message(topic, 0);
      application.send(message);
      application.end(message, COMMIT);
      awaitLater(application, visible, topic);
      observed.put("copies visible", copies(visible, 0));
      assertTrue(copies(visible, 0) >= 1);
      if (Server.isHalfHitch()) {
        assertEquals(1, copies(visible, 0));
      }
    }
  }

  @Test
  @Tag("quick")
  void aCommitAfterARollback() throws Exception {
    String topic = Server.createTopic("after-rollback", 1);
    try (Observed observed = new Observed("commit-after-rollback");
        Visible visible = Server.visible(topic);
        Application application =
            new Application(Server.fresh("after-rollback"))
                .executing(message -> ROLLBACK)
                .start()) {
      Message message = Application.message(topic, 0);
      application.send(message);
      application.end(message, COMMIT);
      awaitLater(application, visible, topic);
      observed.put("copies visible", copies(visible, 0));
      if (Server.isHalfHitch()) {
        assertEquals(0, copies(visible, 0));
      }
    }
  }

  @Test
  @Tag("quick")
  void aRollbackAfterACommit() throws Exception {
    String topic = Server.createTopic("after-commit", 1);
    try (Observed observed = new Observed("rollback-after-commit");
        Visible visible = Server.visible(topic);
        Application application = new Application(Server.fresh("after-commit")).start()) {
      Message message = Application.message(topic, 0);
      application.send(message);
      application.end(message, ROLLBACK);
      awaitLater(application, visible, topic);
      observed.put("copies visible", copies(visible, 0));
      assertEquals(1, copies(visible, 0));
    }
  }

  @Test
  void aLateCommitWithTheFirstAddressAfterACheck() throws Exception {
    String topic = Server.createTopic("late", 1);
    try (Observed observed = new Observed("late-commit");
        Visible visible = Server.visible(topic);
        Application application =
            new Application(Server.fresh("late")).executing(message -> UNKNOWN).start()) {
      Message message = Application.message(topic, 0);
      application.send(message);
      assertTrue(application.awaitChecks(1, 30_000));
      application.end(message, COMMIT);
      assertTrue(visible.awaitCount(1, 20_000));
      long visibleMs = System.currentTimeMillis();
      Thread.sleep((Server.CHECK_MAX + 3L) * Server.INTERVAL_MS);
      observed.put("copies visible", copies(visible, 0));
      observed.put(
          "checks after it was visible",
          application.checks().stream().filter(one -> one.atMs() > visibleMs + 500).count());
      if (Server.isHalfHitch()) {
        assertEquals(1, copies(visible, 0));
      }
    }
  }

  @Test
  @Tag("quick")
  void anEndThatAsksIsAnswered() throws Exception {
    String topic = Server.createTopic("asks", 1);
    String group = Server.fresh("asks");
    try (Observed observed = new Observed("end-that-asks");
        Visible visible = Server.visible(topic);
        Application application =
            new Application(group).executing(message -> UNKNOWN).start()) {
      for (int n = 0; n < 5; n++) {
        application.send(topic, n);
      }
      observed.put("commit", ask(application, 1, group, Ends.COMMIT, 0));
      observed.put("commit again", ask(application, 1, group, Ends.COMMIT, 0));
      observed.put("rollback after commit", ask(application, 1, group, Ends.ROLLBACK, 0));
      observed.put("rollback", ask(application, 2, group, Ends.ROLLBACK, 0));
      observed.put("commit after rollback", ask(application, 2, group, Ends.COMMIT, 0));
      observed.put("commit of another group", ask(application, 3, group + "x", Ends.COMMIT, 0));
      observed.put("commit of another place", ask(application, 4, group, Ends.COMMIT, 7));
      observed.put("unknown", ask(application, 0, group, Ends.UNKNOWN, 0));
      awaitLater(application, visible, topic);
      observed.put(
          "copies visible", List.of(0, 1, 2, 3, 4).stream().map(n -> copies(visible, n)).toList());
      assertTrue(copies(visible, 1) >= 1);
      assertEquals(0, copies(visible, 3));
      assertEquals(0, copies(visible, 4));
    }
  }

  private static String ask(Application application, int n, String group, int decision, long shift)
      throws Exception {
    SendResult sent = application.resultOf(n);
    return Ends.ask(application.producer, sent, group, decision, shift);
  }
}
