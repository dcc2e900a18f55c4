import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Apache RocketMQ's own client for Java, each promise with a line of its own:
 * `java -cp JARS ForeignClient.java forms NAMESRV TOPIC` for a topic that exists, with its dead letters;
 * `java -cp JARS ForeignClient.java failover NAMESRV TOPIC`, which prints `now` when it is time to kill a master, and reads a line after that.
 */
public final class ForeignClient {
    private static final int COUNT = 20;
    private static final long WITHIN_MS = 30_000;
    private static String names;
    private static String topic;

    public static void main(String[] arguments) throws Exception {
        names = arguments[1];
        topic = arguments[2];
        if (arguments[0].equals("forms")) {
            sent();
            consumed();
            pulled();
            failed();
            shared();
        } else {
            failedOver();
        }
        System.exit(0);
    }

    // ------------------------------------------------------------ every form of sending

    private static void sent() throws Exception {
        DefaultMQProducer producer = producer("producers");
        List<SendResult> results = new ArrayList<>();
        for (int number = 0; number < COUNT; number++) results.add(producer.send(message("TagA", "sync-" + number)));
        said("sync send", allOk(results));
        said("its queues take turns", results.stream().map(SendResult::getMessageQueue).distinct().count() > 1);

        List<SendResult> called = Collections.synchronizedList(new ArrayList<>());
        for (int number = 0; number < COUNT; number++) {
            producer.send(message("TagA", "async-" + number), new SendCallback() {
                @Override public void onSuccess(SendResult result) { called.add(result); }
                @Override public void onException(Throwable error) { error.printStackTrace(); }
            });
        }
        said("async send", eventually(() -> called.size() == COUNT) && allOk(called));
        for (int number = 0; number < COUNT; number++) producer.sendOneway(message("TagA", "oneway-" + number));

        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < COUNT; number++) batch.add(message("TagA", "batch-" + number));
        SendResult ofBatch = producer.send(batch);
        said("batch", allOk(List.of(ofBatch)) && ofBatch.getOffsetMsgId().split(",").length == COUNT);

        List<SendResult> inOrder = new ArrayList<>();
        for (int number = 0; number < COUNT; number++) {
            inOrder.add(producer.send(message("TagB", "order-" + number), (queues, message, key) -> queues.get((int) key), 2));
        }
        boolean oneByOne = allOk(inOrder) && inOrder.stream().map(SendResult::getMessageQueue).distinct().count() == 1;
        for (int number = 1; number < COUNT; number++) {
            oneByOne &= inOrder.get(number).getQueueOffset() == inOrder.get(0).getQueueOffset() + number;
        }
        said("send to a selected queue", oneByOne);

        SendResult large = producer.send(message("TagC", "large-" + "x".repeat(100_000)));
        said("large body, compressed by the client", allOk(List.of(large)));
        Message delayed = message("TagC", "delayed");
        delayed.setDelayTimeLevel(1);
        said("delayed", allOk(List.of(producer.send(delayed))));

        MessageExt byId = producer.viewMessage(topic, results.get(3).getOffsetMsgId());
        said("message by the id of its place", text(byId).equals("sync-3") && byId.getKeys().equals("key-sync-3"));
        said("message by the producer's id", eventually(() -> text(viewed(producer, results.get(4).getMsgId())).equals("sync-4")));
        said("message by its key", eventually(() -> byKey(producer, "key-sync-5").equals(List.of("sync-5"))));
        said("no message by another key", byKey(producer, "key-of-none").isEmpty());

        TransactionMQProducer transactions = configured(new TransactionMQProducer("transactions"));
        transactions.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
            @Override public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        transactions.start();
        said("a transaction is refused", fails(() -> transactions.sendMessageInTransaction(message("TagA", "transaction"), null), ""));
        said("a message to an unwritable queue is refused", fails(() -> producer.send(message("TagA", "nowhere"),
            new MessageQueue(topic, "broker-a", 99)), "queue"));
        transactions.shutdown();
        producer.shutdown();
    }

    private static String text(MessageExt message) {
        return message == null ? "" : new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static MessageExt viewed(DefaultMQProducer producer, String id) {
        try {
            return producer.viewMessage(topic, id);
        } catch (Exception error) {
            return null;
        }
    }

    private static List<String> byKey(DefaultMQProducer producer, String key) throws InterruptedException {
        try {
            QueryResult found = producer.queryMessage(topic, key, 10, 0, Long.MAX_VALUE);
            return found.getMessageList().stream().map(ForeignClient::text).collect(Collectors.toList());
        } catch (MQClientException error) {
            return List.of();
        }
    }

    // ------------------------------------------------------------ push consumers

    private static void consumed() throws Exception {
        Set<String> expected = new TreeSet<>(List.of("delayed", "large-" + "x".repeat(100_000)));
        for (String form : List.of("sync", "async", "oneway", "batch", "order")) {
            for (int number = 0; number < COUNT; number++) expected.add(form + "-" + number);
        }
        Queue<MessageExt> all = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = concurrent(topic + "-all", "*", all);
        said("push consumer gets all", eventually(() -> texts(all).equals(expected)));
        said("nothing twice", all.size() == expected.size());
        said("keys and tags as they were sent", all.stream().allMatch(each -> each.getKeys().equals("key-" + text(each).split("xx")[0])
            && List.of("TagA", "TagB", "TagC").contains(each.getTags())));
        said("a delayed message came by its time", all.stream().filter(each -> text(each).equals("delayed"))
            .allMatch(each -> each.getStoreTimestamp() - each.getBornTimestamp() >= 900));
        consumer.shutdown();

        Queue<MessageExt> again = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer same = concurrent(topic + "-all", "*", again);
        DefaultMQProducer producer = producer("producers");
        producer.send(message("TagC", "next"));
        said("a group goes on where it was", eventually(() -> texts(again).contains("next")) && again.size() == 1);
        same.shutdown();
        producer.shutdown();

        Queue<MessageExt> some = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer filtered = concurrent(topic + "-some", "TagB || TagC", some);
        said("filter by tags", eventually(() -> some.size() == COUNT + 3)
            && some.stream().noneMatch(each -> each.getTags().equals("TagA")));
        filtered.shutdown();

        Queue<MessageExt> ordered = new ConcurrentLinkedQueue<>();
        Set<String> suspended = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer orderly = push(topic + "-order", "TagB");
        orderly.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt each : messages) {
                if (text(each).endsWith("7") && suspended.add(text(each))) {
                    context.setSuspendCurrentQueueTimeMillis(100);
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                ordered.add(each);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        orderly.start();
        said("ordered consumer, also over a failure", eventually(() -> ordered.size() >= COUNT) && suspended.size() == 2
            && ordered.stream().map(ForeignClient::text).collect(Collectors.toList())
                .equals(java.util.stream.IntStream.range(0, COUNT).mapToObj(each -> "order-" + each).collect(Collectors.toList())));
        orderly.shutdown();

        DefaultMQPushConsumer sql = configured(new DefaultMQPushConsumer(topic + "-sql"));
        sql.subscribe(topic, MessageSelector.bySql("a > 5"));
        sql.registerMessageListener((MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        said("a filter by SQL is refused", fails(sql::start, "SQL92"));
        sql.shutdown();
    }

    // ------------------------------------------------------------ pulling

    private static void pulled() throws Exception {
        DefaultLitePullConsumer lite = configured(new DefaultLitePullConsumer(topic + "-lite"));
        lite.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        lite.setAutoCommit(false);
        lite.subscribe(topic, "TagB");
        lite.start();
        List<MessageExt> polled = new ArrayList<>();
        said("lite pull consumer", eventually(() -> polled.addAll(lite.poll(200)) | polled.size() >= COUNT && polled.size() == COUNT));
        lite.commit();
        MessageQueue queue = new MessageQueue(topic, polled.get(0).getBrokerName(), polled.get(0).getQueueId());
        long next = polled.get(COUNT - 1).getQueueOffset() + 1;
        said("its offset is committed", eventually(() -> committed(lite, queue) >= next));
        lite.shutdown();

        DefaultLitePullConsumer assigned = configured(new DefaultLitePullConsumer(topic + "-assigned"));
        assigned.setAutoCommit(false);
        assigned.start();
        assigned.assign(List.of(queue));
        assigned.seek(queue, next - 3);
        List<MessageExt> last = new ArrayList<>();
        said("assigned queue, from an offset on", eventually(() -> {
            last.addAll(assigned.poll(200));
            return texts(last).containsAll(Set.of("order-17", "order-18", "order-19"));
        }) && last.get(0).getQueueOffset() == next - 3);
        assigned.shutdown();

        DefaultMQPullConsumer pull = configured(new DefaultMQPullConsumer(topic + "-pull"));
        pull.start();
        said("queues of the topic", pull.fetchSubscribeMessageQueues(topic).size() == 8);
        long end = pull.maxOffset(queue);
        said("first and last offset", pull.minOffset(queue) == 0 && end >= COUNT);
        long stored = polled.get(0).getStoreTimestamp();
        long found = pull.searchOffset(queue, stored);
        said("offset by time", found <= polled.get(0).getQueueOffset() && pull.searchOffset(queue, stored + 3_600_000) == end);
        PullResult result = pull.pull(queue, "TagB", polled.get(0).getQueueOffset(), 5);
        said("pull", result.getPullStatus() == PullStatus.FOUND && texts(result.getMsgFoundList()).equals(texts(polled.subList(0, 5))));
        said("pull behind the end", pull.pull(queue, "*", end, 5).getPullStatus() == PullStatus.NO_NEW_MSG);
        said("pull far behind the end", pull.pull(queue, "*", end + 1000, 5).getPullStatus() == PullStatus.OFFSET_ILLEGAL);
        said("earliest time", pull.earliestMsgStoreTime(queue) > 0);
        pull.updateConsumeOffset(queue, 5);
        pull.getOffsetStore().persist(queue);
        said("offset of a pull consumer", eventually(() -> offset(pull, queue) == 5));
        pull.shutdown();
    }

    private static long committed(DefaultLitePullConsumer consumer, MessageQueue queue) {
        try {
            return consumer.committed(queue);
        } catch (MQClientException error) {
            return -1;
        }
    }

    private static long offset(DefaultMQPullConsumer consumer, MessageQueue queue) {
        try {
            return consumer.fetchConsumeOffset(queue, true);
        } catch (MQClientException error) {
            return -1;
        }
    }

    // ------------------------------------------------------------ failures, and several consumers

    private static void failed() throws Exception {
        String group = topic + "-retry";
        Map<String, List<Integer>> tries = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = push(group, "Retried");
        consumer.setMaxReconsumeTimes(2);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            List<Integer> seen = tries.computeIfAbsent(text(message), each -> new CopyOnWriteArrayList<>());
            seen.add(message.getReconsumeTimes());
            boolean succeeds = text(message).equals("fails-once") && seen.size() == 2;
            return succeeds ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        DefaultMQProducer producer = producer("producers");
        producer.send(message("Retried", "fails-once"));
        producer.send(message("Retried", "fails-always"));
        said("what failed comes again", eventually(() -> List.of(0, 1).equals(tries.get("fails-once"))));
        said("as often as it may", eventually(() -> List.of(0, 1, 2).equals(tries.get("fails-always"))));
        DefaultLitePullConsumer dead = configured(new DefaultLitePullConsumer(topic + "-dead"));
        dead.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        dead.subscribe("%DLQ%" + group, "*");
        dead.start();
        List<MessageExt> letters = new ArrayList<>();
        said("then it is a dead letter", eventually(() -> { letters.addAll(dead.poll(200)); return !letters.isEmpty(); })
            && texts(letters).equals(Set.of("fails-always")));
        said("which tells where it came from", letters.stream().allMatch(each ->
            topic.equals(each.getProperty(MessageConst.PROPERTY_RETRY_TOPIC))
            && "key-fails-always".equals(each.getKeys()) && "Retried".equals(each.getTags())));
        consumer.shutdown();
        dead.shutdown();
        producer.shutdown();
    }

    private static void shared() throws Exception {
        Queue<MessageExt> one = new ConcurrentLinkedQueue<>();
        Queue<MessageExt> other = new ConcurrentLinkedQueue<>();
        String group = topic + "-shared";
        DefaultMQPushConsumer first = concurrent(group, "Shared", one);
        DefaultMQPushConsumer second = concurrent(group, "Shared", other);
        said("two consumers share the queues", eventually(() -> queuesOf(first) == 4 && queuesOf(second) == 4));
        DefaultMQProducer producer = producer("producers");
        for (int number = 0; number < COUNT; number++) producer.send(message("Shared", "shared-" + number));
        said("each gets a part, none twice", eventually(() -> one.size() + other.size() >= COUNT) && !one.isEmpty() && !other.isEmpty()
            && one.size() + other.size() == COUNT && Collections.disjoint(texts(one), texts(other)));
        second.shutdown();
        said("one takes over", eventually(() -> queuesOf(first) == 8));
        first.shutdown();

        List<Queue<MessageExt>> heard = List.of(new ConcurrentLinkedQueue<>(), new ConcurrentLinkedQueue<>());
        List<DefaultMQPushConsumer> listeners = new ArrayList<>();
        for (Queue<MessageExt> each : heard) {
            DefaultMQPushConsumer listener = push(topic + "-broadcast", "Shared");
            listener.setMessageModel(MessageModel.BROADCASTING);
            listener.setInstanceName("broadcast-" + listeners.size());
            collect(listener, each);
            listener.start();
            listeners.add(listener);
        }
        said("broadcast reaches everyone", eventually(() -> heard.stream().allMatch(each -> texts(each).size() == COUNT)));
        listeners.forEach(DefaultMQPushConsumer::shutdown);
        producer.shutdown();
    }

    private static long queuesOf(DefaultMQPushConsumer consumer) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(each -> each.getTopic().equals(topic)).count();
    }

    // ------------------------------------------------------------ a master is killed

    private static void failedOver() throws Exception {
        DefaultMQProducer producer = producer("producers");
        Queue<MessageExt> pushed = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = concurrent(topic + "-failover", "*", pushed);
        Set<String> acknowledged = new TreeSet<>();
        for (int number = 0; number < 5 * COUNT; number++) {
            producer.send(message("TagA", "before-" + number));
            acknowledged.add("before-" + number);
        }
        said("sent before", eventually(() -> texts(pushed).containsAll(acknowledged)));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("now");
        Future<String> killed = Executors.newSingleThreadExecutor().submit(input::readLine);
        int number = 0;
        int errors = 0;
        long slowest = 0;
        long end = System.currentTimeMillis() + WITHIN_MS;
        Set<String> since = new TreeSet<>();
        while (since.size() < 5 * COUNT && System.currentTimeMillis() < end) {
            long began = System.nanoTime();
            String body = "since-" + number++;
            try {
                producer.send(message("TagA", body));
                acknowledged.add(body);
                if (killed.isDone()) since.add(body);
                slowest = Math.max(slowest, (System.nanoTime() - began) / 1_000_000);
            } catch (Exception error) {
                errors++;
            }
        }
        System.out.println("master " + killed.get() + " killed: " + errors + " sends failed, " + slowest + " ms the slowest of the others");
        said("the producer goes on", since.size() == 5 * COUNT);
        said("the consumer gets all that was acknowledged", eventually(() -> texts(pushed).containsAll(acknowledged)));
        consumer.shutdown();

        Queue<MessageExt> fresh = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer late = concurrent(topic + "-late", "*", fresh);
        said("a new consumer gets all that was acknowledged", eventually(() -> texts(fresh).containsAll(acknowledged)));
        late.shutdown();
        producer.shutdown();
    }

    // ------------------------------------------------------------ clients

    private static <T extends ClientConfig> T configured(T client) {
        client.setNamesrvAddr(names);
        client.setPollNameServerInterval(1000);
        client.setHeartbeatBrokerInterval(1000);
        client.setPersistConsumerOffsetInterval(1000);
        client.setInstanceName(UUID.randomUUID().toString());
        return client;
    }

    private static DefaultMQProducer producer(String group) throws MQClientException {
        DefaultMQProducer producer = configured(new DefaultMQProducer(group));
        producer.start();
        return producer;
    }

    private static DefaultMQPushConsumer push(String group, String tags) throws MQClientException {
        DefaultMQPushConsumer consumer = configured(new DefaultMQPushConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, tags);
        return consumer;
    }

    private static DefaultMQPushConsumer concurrent(String group, String tags, Queue<MessageExt> found) throws MQClientException {
        DefaultMQPushConsumer consumer = push(group, tags);
        collect(consumer, found);
        consumer.start();
        return consumer;
    }

    private static void collect(DefaultMQPushConsumer consumer, Queue<MessageExt> found) {
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            found.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
    }

    private static Message message(String tag, String body) {
        return new Message(topic, tag, "key-" + body.split("xx")[0], body.getBytes(StandardCharsets.UTF_8));
    }

    private static Set<String> texts(Collection<MessageExt> messages) {
        return messages.stream().map(ForeignClient::text).collect(Collectors.toCollection(TreeSet::new));
    }

    private static boolean allOk(Collection<SendResult> results) {
        return results.stream().allMatch(each -> each.getSendStatus() == SendStatus.SEND_OK);
    }

    // ------------------------------------------------------------ promises

    private interface Action {
        void run() throws Exception;
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static boolean fails(Action action, String why) {
        try {
            action.run();
            return false;
        } catch (Exception error) {
            String told = String.valueOf(error.getMessage());
            if (!told.contains(why)) System.out.println("another reason: " + told);
            return told.contains(why);
        }
    }

    private static boolean eventually(Condition condition) throws InterruptedException {
        long end = System.currentTimeMillis() + WITHIN_MS;
        while (true) {
            try {
                if (condition.holds()) return true;
            } catch (InterruptedException error) {
                throw error;
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
            if (System.currentTimeMillis() > end) return false;
            Thread.sleep(20);
        }
    }

    private static void said(String promise, boolean kept) {
        System.out.println((kept ? "kept: " : "BROKEN: ") + promise);
    }
}
