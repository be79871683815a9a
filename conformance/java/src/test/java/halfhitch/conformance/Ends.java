package halfhitch.conformance;

import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.remoting.RemotingClient;
import org.apache.rocketmq.remoting.exception.RemotingSendRequestException;
import org.apache.rocketmq.remoting.exception.RemotingTimeoutException;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** END_TRANSACTION as a request with an answer, over the producer's own connections. */
final class Ends {
  static final int COMMIT = 8;
  static final int ROLLBACK = 12;
  static final int UNKNOWN = 0;
  private static final int END_TRANSACTION = 37;
  private static final long ANSWER_MS = 3_000;

  private Ends() {}

  /** The code of the answer, or "no answer". */
  static String ask(
      TransactionMQProducer producer, SendResult sent, String group, int decision, long placeShift)
      throws Exception {
    DefaultMQProducerImpl inner = producer.getDefaultMQProducerImpl();
    String address =
        inner
            .getMqClientFactory()
            .findBrokerAddressInPublish(sent.getMessageQueue().getBrokerName());
    String id = sent.getOffsetMsgId();
    long commitLogPlace = Long.parseUnsignedLong(id.substring(id.length() - 16), 16);
    Map<String, String> fields = new HashMap<>();
    fields.put("producerGroup", group);
    fields.put("tranStateTableOffset", Long.toString(sent.getQueueOffset() + placeShift));
    fields.put("commitLogOffset", Long.toString(commitLogPlace));
    fields.put("commitOrRollback", Integer.toString(decision));
    fields.put("fromTransactionCheck", "false");
    fields.put("msgId", sent.getMsgId());
    fields.put("transactionId", sent.getMsgId());
    fields.put("bname", sent.getMessageQueue().getBrokerName());
    RemotingCommand request = RemotingCommand.createRequestCommand(END_TRANSACTION, null);
    request.setExtFields(new HashMap<>(fields));
    RemotingClient client =
        inner.getMqClientFactory().getMQClientAPIImpl().getRemotingClient();
    for (int trial = 0; ; trial++) {
      try {
        return Integer.toString(client.invokeSync(address, request, ANSWER_MS).getCode());
      } catch (RemotingTimeoutException silence) {
        return "no answer";
      } catch (RemotingSendRequestException closed) {
        // After a silence the client closes its connection; the next request finds it half closed.
        if (trial == 3) {
          throw closed;
        }
      }
    }
  }
}
