package halfhitch.conformance;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * One transactional producer and the program around it: what it answers, and which checks came.
 *
 * <p>Messages are told apart by the user property n, which the test gives.
 */
final class Application implements TransactionListener, SendMessageHook, AutoCloseable {
  /** One check: of which message, the broker's count for it, and when. */
  record Check(String n, String times, long atMs, MessageExt message) {}

  final TransactionMQProducer producer;
  /** As the server answered each half message; what the application gets lacks its address. */
  private final Map<String, SendResult> results = new ConcurrentHashMap<>();

  private final List<Check> checks = new ArrayList<>();
  private final Map<String, AtomicInteger> answered = new ConcurrentHashMap<>();
  private volatile Function<Message, LocalTransactionState> execute =
      message -> LocalTransactionState.COMMIT_MESSAGE;
  private volatile BiFunction<MessageExt, Integer, LocalTransactionState> check =
      (message, number) -> LocalTransactionState.UNKNOW;

  Application(String group) {
    producer = new TransactionMQProducer(group);
    producer.setNamesrvAddr(Server.nameServer());
    producer.setInstanceName(Server.fresh("producer"));
    producer.setSendMsgTimeout(30_000);
    // Checks come fifteen times as often as by default, so a producer says as often that it lives:
    // after a restart of the server that is how it comes back.
    producer.setHeartbeatBrokerInterval(Server.INTERVAL_MS);
    producer.setTransactionListener(this);
    producer.getDefaultMQProducerImpl().registerSendMessageHook(this);
  }

  SendResult resultOf(int n) {
    return results.get(Integer.toString(n));
  }

  /** A further end of a message that was sent before: one-way, as the client does it. */
  void end(Message message, LocalTransactionState state) throws Exception {
    SendResult sent = results.get(message.getUserProperty("n"));
    producer.getDefaultMQProducerImpl().endTransaction(message, sent, state, null);
  }

  @Override
  public String hookName() {
    return "results";
  }

  @Override
  public void sendMessageBefore(SendMessageContext sending) {}

  @Override
  public void sendMessageAfter(SendMessageContext sending) {
    String n = sending.getMessage().getProperty("n");
    if (n != null && sending.getSendResult() != null) {
      results.put(n, sending.getSendResult());
    }
  }

  /** What the local transaction says. */
  Application executing(Function<Message, LocalTransactionState> answer) {
    execute = answer;
    return this;
  }

  /** What a check says; the number is how many checks of the message came here, this included. */
  Application checking(BiFunction<MessageExt, Integer, LocalTransactionState> answer) {
    check = answer;
    return this;
  }

  Application start() throws MQClientException {
    producer.start();
    return this;
  }

  TransactionSendResult send(String topic, int n) throws MQClientException {
    return send(message(topic, n));
  }

  TransactionSendResult send(Message message) throws MQClientException {
    return producer.sendMessageInTransaction(message, null);
  }

  static Message message(String topic, int n) {
    Message message = new Message(topic, ("message " + n).getBytes());
    message.putUserProperty("n", Integer.toString(n));
    return message;
  }

  @Override
  public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
    return execute.apply(message);
  }

  @Override
  public LocalTransactionState checkLocalTransaction(MessageExt message) {
    String n = String.valueOf(message.getUserProperty("n"));
    synchronized (checks) {
      checks.add(
          new Check(
              n,
              message.getProperty("TRANSACTION_CHECK_TIMES"),
              System.currentTimeMillis(),
              message));
      checks.notifyAll();
    }
    int number = answered.computeIfAbsent(n, key -> new AtomicInteger()).incrementAndGet();
    return check.apply(message, number);
  }

  List<Check> checks() {
    synchronized (checks) {
      return List.copyOf(checks);
    }
  }

  List<Check> checksOf(int n) {
    return checks().stream().filter(one -> one.n.equals(Integer.toString(n))).toList();
  }

  /** True when so many checks have come; false at the deadline. */
  boolean awaitChecks(int count, long deadlineMs) throws InterruptedException {
    long endMs = System.currentTimeMillis() + deadlineMs;
    synchronized (checks) {
      while (checks.size() < count) {
        long leftMs = endMs - System.currentTimeMillis();
        if (leftMs <= 0) {
          return false;
        }
        checks.wait(leftMs);
      }
      return true;
    }
  }

  /** How many checks each of these messages got: a count of messages for each number of checks. */
  static Map<String, Integer> checkNumbers(List<Check> checks, Collection<Integer> messages) {
    Map<String, Integer> numbers = new TreeMap<>();
    for (int n : messages) {
      long count = checks.stream().filter(one -> one.n.equals(Integer.toString(n))).count();
      numbers.merge(count + " checks", 1, Integer::sum);
    }
    return numbers;
  }

  /** Waits until no check has come for so long; false at the deadline. */
  boolean awaitQuiet(long quietMs, long deadlineMs) throws InterruptedException {
    long endMs = System.currentTimeMillis() + deadlineMs;
    while (System.currentTimeMillis() < endMs) {
      int before = checks().size();
      if (!awaitChecks(before + 1, quietMs)) {
        return true;
      }
    }
    return false;
  }

  @Override
  public void close() {
    producer.shutdown();
  }
}
