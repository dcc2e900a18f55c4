import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

/** Java's own clients, each promise with a line of its own: `java -cp JARS ForeignClient.java BOOTSTRAP TOPIC`. */
public final class ForeignClient {
    private static final int COUNT = 500;
    private static String bootstrap;
    private static String topic;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        try (Admin admin = Admin.create(settings(Map.of()))) {
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 3).configs(Map.of("retention.ms", "-1"))))
                .all().get(30, TimeUnit.SECONDS);
            said("topic created", true);
            produced();
            consumed();
            group(admin, "classic", Map.of("heartbeat.interval.ms", "200"));
            group(admin, "consumer", Map.of());
            administered(admin);
        }
    }

    private static void produced() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            Map<String, Object> settings = settings(Map.of("compression.type", codec, "linger.ms", "20"));
            try (Producer<byte[], byte[]> producer =
                    new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
                for (int number = 0; number < COUNT; number++) {
                    byte[] value = (codec + " " + number).getBytes();
                    sent.add(producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + number, null, value)));
                }
                long first = sent.get(0).get(30, TimeUnit.SECONDS).offset();
                boolean inOrder = true;
                for (int number = 0; number < COUNT; number++) {
                    inOrder &= sent.get(number).get(30, TimeUnit.SECONDS).offset() == first + number;
                }
                said("idempotent producer, " + codec, inOrder && first % COUNT == 0);
            }
        }
    }

    private static void consumed() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            TopicPartition at = new TopicPartition(topic, 0);
            consumer.assign(List.of(at));
            consumer.seekToBeginning(List.of(at));
            said("consumer reads every codec", read(consumer, 5 * COUNT) == 5 * COUNT);
            said("beginning and end", consumer.beginningOffsets(List.of(at)).get(at) == 0
                && consumer.endOffsets(List.of(at)).get(at) == 5 * COUNT);
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(at, 1_700_000_000_100L)).get(at);
            said("offset by time", found != null && found.offset() == 100 && found.timestamp() == 1_700_000_000_100L);
            consumer.seek(at, 5 * COUNT - 3);
            said("read from the middle of a batch", read(consumer, 3) == 3);
        }
    }

    private static void group(Admin admin, String protocol, Map<String, Object> more) throws Exception {
        String group = topic + "-" + protocol;
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("group.id", group);
        settings.put("group.protocol", protocol);
        TopicPartition at = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> one = consumer(settings); KafkaConsumer<byte[], byte[]> other = consumer(settings)) {
            one.subscribe(List.of(topic));
            other.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + 30_000;
            while (one.assignment().size() != 1 || other.assignment().size() != 1) {
                if (System.currentTimeMillis() > end) break;
                one.poll(Duration.ofMillis(100));
                other.poll(Duration.ofMillis(100));
            }
            said(protocol + ": two members share two partitions", one.assignment().size() == 1 && other.assignment().size() == 1
                && !one.assignment().equals(other.assignment()));
            KafkaConsumer<byte[], byte[]> owner = one.assignment().contains(at) ? one : other;
            owner.commitSync(Map.of(at, new OffsetAndMetadata(42, "as far as this")));
            OffsetAndMetadata committed = owner.committed(Set.of(at)).get(at);
            said(protocol + ": offset and its metadata committed", committed.offset() == 42 && committed.metadata().equals("as far as this"));
        }
        Map<TopicPartition, OffsetAndMetadata> offsets =
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(30, TimeUnit.SECONDS);
        said(protocol + ": offsets of a group listed", offsets.get(at).offset() == 42);
        admin.deleteConsumerGroupOffsets(group, Set.of(at)).all().get(30, TimeUnit.SECONDS);
        admin.deleteConsumerGroups(List.of(group)).all().get(30, TimeUnit.SECONDS);
        said(protocol + ": group deleted", admin.listGroups().all().get(30, TimeUnit.SECONDS).stream()
            .noneMatch(each -> each.groupId().equals(group)));
    }

    private static void administered(Admin admin) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("segment.bytes", "2097152"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE)))).all().get(30, TimeUnit.SECONDS);
        boolean changed = false;
        for (int tries = 0; tries < 100 && !changed; tries++) {
            Config config = admin.describeConfigs(List.of(resource)).all().get(30, TimeUnit.SECONDS).get(resource);
            changed = config.get("segment.bytes").value().equals("2097152")
                && config.get("segment.bytes").source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG
                && config.get("retention.ms").source() == ConfigEntry.ConfigSource.DEFAULT_CONFIG;
            if (!changed) Thread.sleep(50);
        }
        said("settings changed one by one", changed);
        TopicPartition at = new TopicPartition(topic, 0);
        ListOffsetsResult listed = admin.listOffsets(Map.of(at, OffsetSpec.maxTimestamp()));
        said("offset of the largest timestamp", listed.partitionResult(at).get(30, TimeUnit.SECONDS).timestamp()
            == 1_700_000_000_000L + COUNT - 1);
        long low = admin.deleteRecords(Map.of(at, RecordsToDelete.beforeOffset(10))).lowWatermarks().get(at)
            .get(30, TimeUnit.SECONDS).lowWatermark();
        said("records deleted", low == 10);
        said("cluster described", admin.describeCluster().nodes().get(30, TimeUnit.SECONDS).size() == 3);
        Map<Integer, Map<String, LogDirDescription>> directories =
            admin.describeLogDirs(List.of(1, 2, 3)).allDescriptions().get(30, TimeUnit.SECONDS);
        boolean everywhere = true;
        for (Map<String, LogDirDescription> broker : directories.values()) {
            everywhere &= broker.values().stream().anyMatch(each -> each.replicaInfos().containsKey(at));
        }
        said("log directories described", everywhere && directories.size() == 3);
        TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get(30, TimeUnit.SECONDS).get(topic);
        said("topic described", described.partitions().size() == 2 && !described.topicId().equals(Uuid.ZERO_UUID));
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get(30, TimeUnit.SECONDS);
        said("partition added", true);
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).all().get(30, TimeUnit.SECONDS);
        said("topic deleted by its id", true);
    }

    private static int read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        int found = 0;
        long end = System.currentTimeMillis() + 30_000;
        while (found < count && System.currentTimeMillis() < end) {
            found += consumer.poll(Duration.ofMillis(100)).count();
        }
        return found;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> settings = settings(more);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private static void said(String promise, boolean kept) {
        System.out.println((kept ? "kept: " : "BROKEN: ") + promise);
    }
}
