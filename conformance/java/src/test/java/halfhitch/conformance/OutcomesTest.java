package halfhitch.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What becomes visible, by what the application said and when. */
class OutcomesTest {
  private static final LocalTransactionState COMMIT = LocalTransactionState.COMMIT_MESSAGE;
  private static final LocalTransactionState ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE;
  private static final LocalTransactionState UNKNOWN = LocalTransactionState.UNKNOW;
  private static final long ALL_CHECKS_MS =
      Server.IMMUNITY_MS + (Server.CHECK_MAX + 4L) * Server.INTERVAL_MS + 8_000;

  private static final String[] KINDS = {
    "committed", "rolled back", "committed in check", "rolled back in check", "never answered"
  };

  private static LocalTransactionState said(String kind, boolean inCheck) {
    return switch (kind) {
      case "committed" -> COMMIT;
      case "rolled back" -> ROLLBACK;
      case "committed in check" -> inCheck ? COMMIT : UNKNOWN;
      case "rolled back in check" -> inCheck ? ROLLBACK : UNKNOWN;
      default -> UNKNOWN;
    };
  }

  @Test
  @Tag("quick")
  void fiveOutcomesOf120Messages() throws Exception {
    String topic = Server.createTopic("five", 4);
    try (Observed observed = new Observed("five-outcomes");
        Visible visible = Server.visible(topic);
        Application application =
            new Application(Server.fresh("five"))
                .executing(message -> said(message.getUserProperty("kind"), false))
                .checking((message, number) -> said(message.getUserProperty("kind"), true))
                .start()) {
      long beganMs = System.currentTimeMillis();
      for (int n = 0; n < 120; n++) {
        Message message = Application.message(topic, n);
        message.putUserProperty("kind", KINDS[n % 5]);
        TransactionSendResult sent = application.send(message);
        assertEquals(said(KINDS[n % 5], false), sent.getLocalTransactionState());
      }
      long sentMs = System.currentTimeMillis() - beganMs;
      boolean isAllVisible = visible.awaitCount(48, 40_000);
      application.awaitQuiet(3L * Server.INTERVAL_MS + 2_000, ALL_CHECKS_MS);
      observed.put("sent", 120).put("sendingMs", sentMs);
      observed.put("visible", visible.counts("kind")).put("doubled", visible.doubledCount());
      for (int kind = 0; kind < KINDS.length; kind++) {
        int first = kind;
        List<Integer> those = IntStream.range(0, 24).map(i -> first + 5 * i).boxed().toList();
        observed.put("checks, " + KINDS[kind], Application.checkNumbers(application.checks(), those));
      }
      observed.put(
          "firstCheckMs",
          application.checks().stream().mapToLong(Application.Check::atMs).min().orElse(0) - beganMs);
      assertTrue(isAllVisible, () -> "visible: " + visible.counts("kind"));
      assertEquals(
          Map.of("committed", 24, "committed in check", 24), distinctByKind(visible.all()));
      if (Server.isHalfHitch()) {
        assertEquals(48, visible.all().size(), "each once");
      }
    }
  }

  private static Map<String, Integer> distinctByKind(List<Seen> seen) {
    List<Seen> distinct = new ArrayList<>();
    for (Seen one : seen) {
      if (distinct.stream().noneMatch(other -> other.property("n").equals(one.property("n")))) {
        distinct.add(one);
      }
    }
    return Visible.counts(distinct, "kind");
  }

  @Test
  @Tag("quick")
  void anExceptionOrNullInTheLocalTransactionIsUnknownAndChecked() throws Exception {
    String topic = Server.createTopic("throws", 2);
    try (Observed observed = new Observed("exception-in-execute");
        Visible visible = Server.visible(topic);
        Application application =
            new Application(Server.fresh("throws"))
                .executing(
                    message -> {
                      if (message.getUserProperty("n").equals("0")) {
                        throw new IllegalStateException("the database is away");
                      }
                      return null;
                    })
                .checking((message, number) -> COMMIT)
                .start()) {
      List<String> states = new ArrayList<>();
      for (int n = 0; n < 2; n++) {
        states.add(application.send(topic, n).getLocalTransactionState().name());
      }
      boolean isVisible = visible.awaitCount(2, 30_000);
      observed.put("states", states).put("visible", visible.all().size());
      observed.put("checks", Application.checkNumbers(application.checks(), List.of(0, 1)));
      assertTrue(isVisible);
    }
  }

  @Test
  @Tag("quick")
  void anExceptionOrNullInACheckIsUnknownAndCheckedAgain() throws Exception {
    String topic = Server.createTopic("check-throws", 2);
    try (Observed observed = new Observed("exception-in-check");
        Visible visible = Server.visible(topic);
        Application application =
            new Application(Server.fresh("check-throws"))
                .executing(message -> UNKNOWN)
                .checking(
                    (message, number) -> {
                      if (number == 1 && message.getUserProperty("n").equals("0")) {
                        throw new IllegalStateException("the database is away");
                      }
                      return number == 1 ? null : COMMIT;
                    })
                .start()) {
      application.send(topic, 0);
      application.send(topic, 1);
      boolean isVisible = visible.awaitCount(2, 30_000);
      observed.put("visible", visible.all().size());
      observed.put("checks", Application.checkNumbers(application.checks(), List.of(0, 1)));
      observed.put(
          "numbers in checks",
          application.checks().stream().map(Application.Check::times).sorted().distinct().toList());
      assertTrue(isVisible);
    }
  }

  @Test
  void anyProducerOfTheGroupAnswersChecks() throws Exception {
    String topic = Server.createTopic("several", 4);
    String group = Server.fresh("several");
    List<Application> applications = new ArrayList<>();
    try (Observed observed = new Observed("several-producers");
        Visible visible = Server.visible(topic)) {
      for (int i = 0; i < 3; i++) {
        applications.add(
            new Application(group)
                .executing(message -> UNKNOWN)
                .checking((message, number) -> COMMIT)
                .start());
      }
      for (int n = 0; n < 30; n++) {
        applications.get(n % 3).send(topic, n);
      }
      boolean isVisible = visible.awaitCount(30, 30_000);
      List<Application.Check> checks =
          applications.stream().flatMap(one -> one.checks().stream()).toList();
      observed.put("visible", visible.counts("n").size()).put("doubled", visible.doubledCount());
      observed.put(
          "checks",
          Application.checkNumbers(checks, IntStream.range(0, 30).boxed().toList()));
      observed.put(
          "producers that were asked",
          applications.stream().filter(one -> !one.checks().isEmpty()).count());
      assertTrue(isVisible);
    } finally {
      applications.forEach(Application::close);
    }
  }

  @Test
  @Tag("quick")
  void oneProducerWritesToSeveralTopics() throws Exception {
    String[] topics = {
      Server.createTopic("one", 1), Server.createTopic("two", 2), Server.createTopic("three", 3)
    };
    try (Observed observed = new Observed("several-topics");
        Visible visible = Server.visible(topics);
        Application application = new Application(Server.fresh("topics")).start()) {
      for (int n = 0; n < 12; n++) {
        application.send(topics[n % 3], n);
      }
      boolean isVisible = visible.awaitCount(12, 30_000);
      for (int i = 0; i < 3; i++) {
        String topic = topics[i];
        observed.put(
            "visible in topic " + (i + 1),
            visible.all().stream().filter(one -> one.topic().equals(topic)).count());
      }
      observed.put("doubled", visible.doubledCount());
      assertTrue(isVisible);
    }
  }
}
