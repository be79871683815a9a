package halfhitch.conformance.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import halfhitch.conformance.Observation;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/** A Spring program as users have them: one template, one listener, nothing changed. */
class SpringTemplateTest {
  static final ConcurrentLinkedQueue<String> CHECKED = new ConcurrentLinkedQueue<>();

  @SpringBootConfiguration
  @EnableAutoConfiguration
  static class Program {}

  /** Says what the header "kind" asks for. */
  @RocketMQTransactionListener
  static class Listener implements RocketMQLocalTransactionListener {
    @Override
    public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object argument) {
      return switch ((String) argument) {
        case "committed" -> RocketMQLocalTransactionState.COMMIT;
        case "rolled back" -> RocketMQLocalTransactionState.ROLLBACK;
        case "exception" -> throw new IllegalStateException("the database is away");
        default -> RocketMQLocalTransactionState.UNKNOWN;
      };
    }

    @Override
    public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
      String kind = (String) message.getHeaders().get("kind");
      CHECKED.add(kind + ": " + new String((byte[]) message.getPayload()));
      return "rolled back in check".equals(kind)
          ? RocketMQLocalTransactionState.ROLLBACK
          : RocketMQLocalTransactionState.COMMIT;
    }
  }

  private static final String[] KINDS = {
    "committed", "rolled back", "committed in check", "rolled back in check", "exception"
  };

  @Test
  @Tag("quick")
  void theTemplateAndItsListener() throws Exception {
    String topic = Observation.createTopic("spring", 4);
    try (Observation observed = new Observation("spring", topic);
        ConfigurableApplicationContext context =
            new SpringApplicationBuilder(Program.class, Listener.class)
                .web(WebApplicationType.NONE)
                .properties(
                    "rocketmq.name-server=" + Observation.nameServer(),
                    "rocketmq.producer.group=" + Observation.fresh("spring"),
                    "rocketmq.producer.send-message-timeout=30000",
                    "spring.main.banner-mode=off",
                    "logging.level.root=warn")
                .run()) {
      RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
      List<String> states = new ArrayList<>();
      for (int n = 0; n < KINDS.length; n++) {
        TransactionSendResult sent =
            template.sendMessageInTransaction(
                topic + ":paid",
                MessageBuilder.withPayload("message " + n)
                    .setHeader("KEYS", "order-" + n)
                    .setHeader("n", Integer.toString(n))
                    .setHeader("kind", KINDS[n])
                    .build(),
                KINDS[n]);
        states.add(sent.getLocalTransactionState().name());
      }
      template.syncSend(
          topic + ":plain",
          MessageBuilder.withPayload("plain").setHeader("n", "9").setHeader("kind", "plain").build());
      boolean isVisible = observed.awaitCount(4, 40_000);
      observed.put("states", states);
      observed.put("visible", observed.counts("kind"));
      observed.put("keys", observed.values("KEYS")).put("tags", observed.values("TAGS"));
      observed.put("checked", CHECKED.stream().sorted().distinct().toList());
      assertTrue(isVisible);
      assertEquals(
          Map.of("committed", 1, "committed in check", 1, "exception", 1, "plain", 1),
          observed.counts("kind"));
    }
  }
}
