package halfhitch.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Bodies, keys, tags and properties arrive as they were sent. */
class MessagesTest {
  private static final int[] SIZES = {1, 4_096, 4_097, 65_536, 900_000};
  private static final int MEBIBYTE = 1_048_576;

  private static byte[] body(int size, boolean isCompressible) {
    byte[] body = new byte[size];
    if (isCompressible) {
      Arrays.fill(body, (byte) 'a');
    } else {
      new Random(size).nextBytes(body);
    }
    return body;
  }

  /** False when this client knows no compression but its own. */
  private static boolean compressWith(Application application, String type) throws Exception {
    try {
      Class<?> types = Class.forName("org.apache.rocketmq.common.compression.CompressionType");
      Method setter = application.producer.getClass().getMethod("setCompressType", types);
      setter.invoke(application.producer, types.getMethod("of", String.class).invoke(null, type));
      return true;
    } catch (ClassNotFoundException | NoSuchMethodException older) {
      return type.equals("ZLIB");
    }
  }

  private static void bodies(String type) throws Exception {
    String topic = Server.createTopic("bodies", 2);
    try (Observed observed = new Observed("bodies-" + type.toLowerCase());
        Visible visible = Server.visible(topic);
        Application application =
            new Application(Server.fresh("bodies"))
                .executing(
                    message ->
                        message.getUserProperty("checked").equals("true")
                            ? LocalTransactionState.UNKNOW
                            : LocalTransactionState.COMMIT_MESSAGE)
                .checking((message, number) -> LocalTransactionState.COMMIT_MESSAGE)
                .start()) {
      if (!compressWith(application, type)) {
        observed.put("this client has it", false);
        return;
      }
      Map<String, byte[]> sent = new HashMap<>();
      int n = 0;
      for (int size : SIZES) {
        for (boolean isCompressible : new boolean[] {true, false}) {
          for (boolean isChecked : new boolean[] {true, false}) {
            Message message = Application.message(topic, n);
            message.putUserProperty("checked", Boolean.toString(isChecked));
            message.setBody(body(size, isCompressible));
            sent.put(Integer.toString(n++), body(size, isCompressible));
            application.send(message);
          }
        }
      }
      boolean isVisible = visible.awaitCount(sent.size(), 40_000);
      List<Seen> all = visible.all();
      observed.put("sent", sent.size()).put("visible", visible.counts("n").size());
      observed.put(
          "as sent",
          all.stream().filter(one -> Arrays.equals(one.body(), sent.get(one.property("n")))).count()
              == all.size());
      observed.put(
          "as sent in checks",
          application.checks().stream()
              .allMatch(one -> Arrays.equals(one.message().getBody(), sent.get(one.n()))));
      assertTrue(isVisible, () -> "visible: " + visible.counts("n").size());
      all.forEach(one -> assertArrayEquals(sent.get(one.property("n")), one.body()));
    }
  }

  @Test
  @Tag("quick")
  void bodiesThatTheClientCompressesWithZlib() throws Exception {
    bodies("ZLIB");
  }

  @Test
  @Tag("quick")
  void bodiesThatTheClientCompressesWithLz4() throws Exception {
    bodies("LZ4");
  }

  @Test
  @Tag("quick")
  void bodiesThatTheClientCompressesWithZstd() throws Exception {
    bodies("ZSTD");
  }

  @Test
  void bodiesNearAndAboveTheClientsLimit() throws Exception {
    String topic = Server.createTopic("large", 1);
    try (Observed observed = new Observed("bodies-large");
        Visible visible = Server.visible(topic);
        Application application = new Application(Server.fresh("large")).start()) {
      for (int size : new int[] {3 * MEBIBYTE, 4 * MEBIBYTE, 4 * MEBIBYTE + 1}) {
        Message message = Application.message(topic, size);
        message.setBody(body(size, false));
        String outcome;
        try {
          outcome = application.send(message).getSendStatus().name();
        } catch (MQClientException refused) {
          boolean isServers = refused.getCause() instanceof MQBrokerException;
          outcome = "refused by the " + (isServers ? "server" : "client");
        }
        observed.put(size + " bytes", outcome);
      }
      assertTrue(visible.awaitCount(1, 30_000));
      Thread.sleep(2_000);
      observed.put("visible", visible.counts("n").keySet());
    }
  }

  @Test
  @Tag("quick")
  void keysTagsAndPropertiesArrive() throws Exception {
    String topic = Server.createTopic("properties", 2);
    try (Observed observed = new Observed("properties");
        Visible visible = Server.visible(topic);
        Application application = new Application(Server.fresh("properties")).start()) {
      Message message = Application.message(topic, 0);
      message.setTags("paid");
      message.setKeys(List.of("order-17", "customer-4"));
      message.putUserProperty("city", "K\u00f8benhavn \u6771\u4eac");
      message.putUserProperty("with space", "a b\tc");
      message.setBuyerId("buyer");
      String id = application.send(message).getMsgId();
      assertTrue(visible.awaitCount(1, 20_000));
      Seen seen = visible.all().get(0);
      Map<String, String> named = new TreeMap<>();
      for (String name : List.of("city", "with space", "n", "buyerId", "TAGS", "KEYS", "WAIT")) {
        named.put(name, seen.property(name));
      }
      observed.put("properties", named);
      observed.put("keys", seen.keys()).put("tags", seen.tags());
      observed.put("message id", id.equals(seen.property("UNIQ_KEY")) ? "UNIQ_KEY" : idName(seen, id));
      observed.put(
          "the transaction's own properties",
          seen.properties().keySet().stream()
              .filter(name -> name.matches("TRAN_MSG|PGROUP|REAL_TOPIC|REAL_QID|CLUSTER"))
              .sorted()
              .toList());
      assertEquals("K\u00f8benhavn \u6771\u4eac", seen.property("city"));
      assertEquals("order-17 customer-4", seen.keys());
      assertEquals("paid", seen.tags());
    }
  }

  private static String idName(Seen seen, String id) {
    return seen.properties().entrySet().stream()
        .filter(one -> id.equals(one.getValue()))
        .map(Map.Entry::getKey)
        .findFirst()
        .orElse("not there");
  }

  @Test
  @Tag("quick")
  void aDelayLevelInATransaction() throws Exception {
    Message message = Application.message(Server.createTopic("delay", 1), 0);
    message.setDelayTimeLevel(18);
    delayed("delay-level", message);
  }

  @Test
  @Tag("quick")
  void aTimeOfDeliveryInATransaction() throws Exception {
    Message message = Application.message(Server.createTopic("timer", 1), 0);
    // The reserved property itself: older clients have no setter for it and know nothing of it.
    setProperty(message, "TIMER_DELAY_SEC", "2");
    delayed("timer", message);
  }

  private static void delayed(String name, Message message) throws Exception {
    try (Observed observed = new Observed(name);
        Visible visible = Server.visible(message.getTopic());
        Application application = new Application(Server.fresh(name)).start()) {
      String outcome;
      try {
        outcome = application.send(message).getSendStatus().name();
      } catch (MQClientException refused) {
        outcome =
            refused.getCause() instanceof MQBrokerException answered
                ? "refused by the server, code " + answered.getResponseCode()
                : "refused by the client";
      }
      observed.put("outcome", outcome);
      observed.put("visible within 12 s", visible.awaitCount(1, 12_000));
    }
  }

  private static void setProperty(Message message, String name, String value) throws Exception {
    Method put = Message.class.getDeclaredMethod("putProperty", String.class, String.class);
    put.setAccessible(true);
    put.invoke(message, name, value);
  }
}
