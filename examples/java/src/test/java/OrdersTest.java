import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Orders are sent while brokers die. What was acknowledged must be there in the end, on every replica. */
class OrdersTest {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Cluster CLUSTER = new Cluster();
    static final String TOPIC = "java-orders";

    @BeforeEach
    void beginWhole() throws Exception {
        CLUSTER.awaitReady();
        CLUSTER.ask("POST", "/heal", Map.of());
        CLUSTER.ask("DELETE", "/acknowledged", Map.of());
    }

    @AfterEach
    void keepPromises() throws Exception {
        JsonNode found = CLUSTER.ask("POST", "/check", Map.of("within_s", 60));
        assertTrue(found.get("valid").asBoolean(), found.toString());
    }

    @Test
    void acknowledgedOrdersSurviveTheLeader() throws Exception {
        List<Map<String, Object>> acknowledged = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer()) {
            send(producer, acknowledged, 0, 20);
            int leader = CLUSTER.leader(TOPIC + "-0");
            CLUSTER.ask("POST", "/faults", Map.of("kind", "kill", "nodes", List.of(leader)));
            send(producer, acknowledged, 20, 40);
            assertNotEquals(leader, CLUSTER.leader(TOPIC + "-0"));
        }
        CLUSTER.ask("POST", "/acknowledged", Map.of("records", acknowledged));
    }

    @Test
    void aLostAnswerDoublesNothing() throws Exception {
        List<Map<String, Object>> acknowledged = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer()) {
            send(producer, acknowledged, 0, 1);
            long before = (long) acknowledged.get(0).get("offset");
            CLUSTER.ask("POST", "/answers", Map.of("api", "Produce", "disconnect", "after", "topic", TOPIC));
            send(producer, acknowledged, 1, 3);
            assertEquals(before + 2, acknowledged.get(2).get("offset"));
        }
        CLUSTER.ask("POST", "/acknowledged", Map.of("records", acknowledged));
    }

    /** Acknowledged by all replicas in sync; the client tries again for as long as a broker is missing. */
    static KafkaProducer<String, String> producer() throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", CLUSTER.ask("GET", "/status", null).at("/clients/bootstrap.servers").asText(),
                "acks", "all",
                "enable.idempotence", true,
                "delivery.timeout.ms", 60_000,
                "request.timeout.ms", 10_000);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static void send(KafkaProducer<String, String> producer, List<Map<String, Object>> acknowledged, int from, int to)
            throws Exception {
        for (int number = from; number < to; number++) {
            String order = "order " + number;
            RecordMetadata place = producer.send(new ProducerRecord<>(TOPIC, 0, null, order)).get(60, TimeUnit.SECONDS);
            acknowledged.add(Map.of("topic", TOPIC, "partition", place.partition(), "offset", place.offset(), "value", order));
        }
    }

    /** The cluster of `quorumlog up --http`. */
    static class Cluster {
        final String url = System.getenv().getOrDefault("QUORUMLOG_URL", "http://127.0.0.1:18080");
        final String token = System.getenv().getOrDefault("QUORUMLOG_HTTP_TOKEN", "");
        final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();

        void awaitReady() throws Exception {
            for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60); ; Thread.sleep(200)) {
                try {
                    ask("GET", "/status", null);
                    return;
                } catch (IOException | IllegalStateException notYet) {
                    if (System.nanoTime() > end) {
                        throw notYet;
                    }
                }
            }
        }

        int leader(String scope) throws Exception {
            return ask("GET", "/leaders?scope=" + scope, null).at("/leaders/" + scope + "/node").asInt();
        }

        JsonNode ask(String method, String path, Map<String, Object> fields) throws Exception {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path))
                    .timeout(Duration.ofSeconds(120))
                    .method(method, fields == null
                            ? HttpRequest.BodyPublishers.noBody()
                            : HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(fields)));
            if (!token.isEmpty()) {
                request.header("Authorization", "Bearer " + token);
            }
            HttpResponse<String> answer = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new IllegalStateException(method + " " + path + ": " + answer.statusCode() + " " + answer.body());
            }
            return JSON.readTree(answer.body());
        }
    }
}
