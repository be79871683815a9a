package halfhitch.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.stream.IntStream;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.Isolated;

/** The server goes and comes again; nothing that was acknowledged is lost. Alone on the server. */
@Isolated
@Execution(ExecutionMode.SAME_THREAD)
class ServerRestartTest {
  private static final LocalTransactionState COMMIT = LocalTransactionState.COMMIT_MESSAGE;
  private static final LocalTransactionState UNKNOWN = LocalTransactionState.UNKNOW;
  private static final long AFTER_MS = 90_000;

  private static void restarted(String name, Runnable restart) throws Exception {
    String topic = Server.createTopic(name, 2);
    try (Observed observed = new Observed(name);
        Application application =
            new Application(Server.fresh(name))
                .executing(
                    message ->
                        Integer.parseInt(message.getUserProperty("n")) < 20 ? COMMIT : UNKNOWN)
                .checking((message, number) -> COMMIT)
                .start()) {
      for (int n = 0; n < 40; n++) {
        application.send(topic, n);
      }
      restart.run();
      long upMs = System.currentTimeMillis();
      try (Visible visible = Server.visible(topic)) {
        visible.awaitCount(40, AFTER_MS);
        observed.put("visible of 40", visible.counts("n").size());
        observed.put("allVisibleMs", System.currentTimeMillis() - upMs);
        application.awaitQuiet(2L * Server.INTERVAL_MS + 3_000, 20_000);
        observed.put("doubled", visible.doubledCount());
        observed.put(
            "checks of committed ones",
            Application.checkNumbers(
                application.checks(), IntStream.range(0, 20).boxed().toList()));
        // RocketMQ spends checks while nobody is connected: the unknown ones may be lost there.
        assertTrue(visible.counts("n").size() >= 20, "the committed ones are visible");
        if (Server.isHalfHitch()) {
          assertEquals(40, visible.all().size(), "each once");
        }
      }
    }
  }

  @Test
  void aRestartInGoodOrder() throws Exception {
    restarted("server-restart", Server::restart);
  }

  @Test
  void aKilledServer() throws Exception {
    restarted("server-killed", Server::killAndStart);
  }

  @Test
  void aRestartDuringTheLocalTransaction() throws Exception {
    String topic = Server.createTopic("between", 1);
    try (Observed observed = new Observed("server-restart-between");
        Application application =
            new Application(Server.fresh("between"))
                .executing(
                    message -> {
                      Server.killAndStart();
                      return COMMIT;
                    })
                .checking((message, number) -> COMMIT)
                .start()) {
      application.send(topic, 0);
      long endedMs = System.currentTimeMillis();
      try (Visible visible = Server.visible(topic)) {
        boolean isVisible = visible.awaitCount(1, AFTER_MS);
        observed.put("visible", visible.counts("n").size());
        observed.put("visibleMs", System.currentTimeMillis() - endedMs);
        application.awaitQuiet(2L * Server.INTERVAL_MS + 3_000, 20_000);
        observed.put("doubled", visible.doubledCount());
        assertTrue(isVisible);
      }
    }
  }
}
