package halfhitch.conformance;

import java.util.Map;

/** One message as a consumer saw it; the same for both servers. */
record Seen(
    String topic,
    int queue,
    long place,
    byte[] body,
    String keys,
    String tags,
    Map<String, String> properties,
    long atMs) {

  String property(String name) {
    return properties.get(name);
  }
}
