package halfhitch.conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Predicate;

/**
 * A consumer in a thread of its own that keeps all it sees.
 *
 * <p>Subclasses fetch; whatever they fetch is kept in the order in which it came.
 */
abstract class Visible implements AutoCloseable {
  private final List<Seen> all = new ArrayList<>();
  private final Thread thread;
  private volatile boolean isOpen = true;
  private volatile Exception problem;

  Visible() {
    thread = new Thread(this::run, "visible");
    thread.setDaemon(true);
  }

  /** Whatever is new; waits a moment for it. */
  abstract List<Seen> fetch() throws Exception;

  abstract void release();

  final void begin() {
    thread.start();
  }

  private void run() {
    try {
      while (isOpen) {
        List<Seen> fetched;
        try {
          fetched = fetch();
        } catch (InterruptedException end) {
          return;
        }
        synchronized (all) {
          all.addAll(fetched);
          all.notifyAll();
        }
      }
    } catch (Exception failure) {
      if (isOpen) {
        problem = failure;
      }
    } finally {
      release();
    }
  }

  List<Seen> all() {
    if (problem != null) {
      throw new IllegalStateException("the consumer failed", problem);
    }
    synchronized (all) {
      return List.copyOf(all);
    }
  }

  /** True as soon as what was seen fulfils the condition; false at the deadline. */
  boolean await(Predicate<List<Seen>> condition, long deadlineMs) throws InterruptedException {
    long endMs = System.currentTimeMillis() + deadlineMs;
    synchronized (all) {
      while (!condition.test(all())) {
        long leftMs = endMs - System.currentTimeMillis();
        if (leftMs <= 0) {
          return false;
        }
        all.wait(Math.min(leftMs, 200));
      }
      return true;
    }
  }

  boolean awaitCount(int count, long deadlineMs) throws InterruptedException {
    return await(seen -> counts(seen, "n").size() >= count, deadlineMs);
  }

  /** How often each value of a user property was seen. */
  Map<String, Integer> counts(String property) {
    return counts(all(), property);
  }

  static Map<String, Integer> counts(List<Seen> seen, String property) {
    Map<String, Integer> counts = new TreeMap<>();
    for (Seen one : seen) {
      counts.merge(String.valueOf(one.property(property)), 1, Integer::sum);
    }
    return counts;
  }

  /** How many messages were seen more often than once, told apart by the property n. */
  int doubledCount() {
    return (int) counts("n").values().stream().filter(count -> count > 1).count();
  }

  @Override
  public void close() throws InterruptedException {
    isOpen = false;
    thread.interrupt();
    thread.join(20_000);
  }
}
