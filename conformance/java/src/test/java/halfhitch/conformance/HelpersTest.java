package halfhitch.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The helpers count rightly; needs no server, so that a build can try the test runner with it. */
class HelpersTest {
  private static Seen seen(String n) {
    return new Seen("topic", 0, 0, new byte[0], null, null, Map.of("n", n), 0);
  }

  @Test
  @Tag("helpers")
  void messagesAreCountedByTheirProperty() {
    List<Seen> seen = List.of(seen("1"), seen("2"), seen("1"));
    assertEquals(Map.of("1", 2, "2", 1), Visible.counts(seen, "n"));
    assertEquals(Map.of("null", 3), Visible.counts(seen, "other"));
  }

  @Test
  @Tag("helpers")
  void checksAreCountedByMessage() {
    List<Application.Check> checks =
        List.of(
            new Application.Check("1", "1", 0, null), new Application.Check("1", "2", 0, null));
    assertEquals(
        Map.of("2 checks", 1, "0 checks", 2), Application.checkNumbers(checks, List.of(1, 2, 3)));
  }
}
