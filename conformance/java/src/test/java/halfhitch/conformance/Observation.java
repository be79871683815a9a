package halfhitch.conformance;

import java.util.List;
import java.util.Map;
import java.util.Objects;

/** For cases in other packages: the server, what one topic shows, and the case's record. */
public final class Observation implements AutoCloseable {
  private final Observed observed;
  private final Visible visible;

  public Observation(String name, String topic) {
    observed = new Observed(name);
    visible = Server.visible(topic);
  }

  public static String createTopic(String prefix, int queueCount) {
    return Server.createTopic(prefix, queueCount);
  }

  public static String nameServer() {
    return Server.nameServer();
  }

  public static String fresh(String prefix) {
    return Server.fresh(prefix);
  }

  public Observation put(String what, Object value) {
    observed.put(what, value);
    return this;
  }

  public boolean awaitCount(int count, long deadlineMs) throws InterruptedException {
    return visible.awaitCount(count, deadlineMs);
  }

  public Map<String, Integer> counts(String property) {
    return visible.counts(property);
  }

  /** The different values of a property, sorted; messages without it are left out. */
  public List<String> values(String property) {
    return visible.all().stream()
        .map(one -> one.property(property))
        .filter(Objects::nonNull)
        .distinct()
        .sorted()
        .toList();
  }

  @Override
  public void close() throws Exception {
    visible.close();
    observed.close();
  }
}
