package halfhitch.conformance;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.TreeMap;

/**
 * What one case saw on one server, kept as JSON in {@code conformance.records}, whether the case
 * ends well or not. Names that end in Ms are times: told, not compared.
 */
final class Observed implements AutoCloseable {
  private static final Gson GSON = new GsonBuilder().setPrettyPrinting().create();
  private final String name;
  private final TreeMap<String, Object> values = new TreeMap<>();

  Observed(String name) {
    this.name = name;
  }

  synchronized Observed put(String what, Object value) {
    values.put(what, value);
    return this;
  }

  @Override
  public synchronized void close() throws IOException {
    Path folder = Path.of(System.getProperty("conformance.records", "build/records"));
    Files.createDirectories(folder);
    Files.writeString(folder.resolve(name + ".json"), GSON.toJson(values) + "\n");
  }
}
