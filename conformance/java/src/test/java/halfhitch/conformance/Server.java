package halfhitch.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The server under test, as system properties tell it: {@code conformance.kind} (rocketmq or
 * halfhitch), {@code conformance.nameServer} for the producers, {@code conformance.kafka} where
 * Half Hitch's messages become visible, {@code conformance.control} the address of whoever started
 * the servers: it creates topics and restarts the server when asked.
 *
 * <p>The check times are those the servers were started with.
 */
final class Server {
  static final int IMMUNITY_MS = Integer.getInteger("conformance.immunityMs", 3_000);
  static final int INTERVAL_MS = Integer.getInteger("conformance.intervalMs", 2_000);
  static final int CHECK_MAX = Integer.getInteger("conformance.checkMax", 5);

  private static final String KIND = System.getProperty("conformance.kind");
  private static final String CONTROL = System.getProperty("conformance.control");
  private static final String RUN = Long.toString(System.currentTimeMillis(), 36);
  private static final AtomicInteger NUMBERS = new AtomicInteger();
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  private Server() {}

  static boolean isHalfHitch() {
    return "halfhitch".equals(KIND);
  }

  static String kind() {
    return KIND;
  }

  static String nameServer() {
    return System.getProperty("conformance.nameServer");
  }

  /** A name that no other case and no other run uses. */
  static String fresh(String prefix) {
    return prefix + "-" + RUN + "-" + NUMBERS.incrementAndGet();
  }

  static String createTopic(String prefix, int queueCount) {
    String topic = fresh(prefix);
    order("topic?name=" + encoded(topic) + "&queues=" + queueCount);
    return topic;
  }

  /** Ends the server in good order and starts it again; returns when it is up. */
  static void restart() {
    order("restart");
  }

  /** Kills the server and starts it again; returns when it is up. */
  static void killAndStart() {
    order("kill");
  }

  /** What a consumer of these topics gets to see, from their beginning on. */
  static Visible visible(String... topics) {
    return isHalfHitch()
        ? new KafkaVisible(System.getProperty("conformance.kafka"), List.of(topics))
        : new RocketMqVisible(nameServer(), List.of(topics));
  }

  private static void order(String what) {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(CONTROL + "/" + what))
            .timeout(Duration.ofMinutes(3))
            .POST(HttpRequest.BodyPublishers.noBody())
            .build();
    try {
      HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
      if (answer.statusCode() != 204) {
        throw new IllegalStateException(what + ": " + answer.body());
      }
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    } catch (InterruptedException problem) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(problem);
    }
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8);
  }
}
