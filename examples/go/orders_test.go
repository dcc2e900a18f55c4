// A Go test that breaks a Kafka cluster: see docs/http.md. Start the cluster, then run `go test`.
package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const topic = "go-orders"

// TestAcknowledgedOrdersSurviveTheLeader sends orders while their leader dies. What was acknowledged must be there in the
// end, on every replica.
func TestAcknowledgedOrdersSurviveTheLeader(t *testing.T) {
	awaitReady(t)
	ask(t, "POST", "/heal", nil)
	ask(t, "DELETE", "/acknowledged", nil)
	servers := ask(t, "GET", "/status", nil)["clients"].(map[string]any)["bootstrap.servers"].(string)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	acknowledged := send(t, client, 0, 20)
	leader := leaderOf(t, topic+"-0")
	ask(t, "POST", "/faults", map[string]any{"kind": "kill", "nodes": []int{leader}})
	acknowledged = append(acknowledged, send(t, client, 20, 40)...)
	if leaderOf(t, topic+"-0") == leader {
		t.Errorf("broker %d is dead and leads", leader)
	}

	ask(t, "POST", "/acknowledged", map[string]any{"records": acknowledged})
	found := ask(t, "POST", "/check", map[string]any{"within_s": 60})
	if found["valid"] != true {
		t.Errorf("broken promises: %v", found["broken"])
	}
}

func send(t *testing.T, client *kgo.Client, from, to int) []map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	acknowledged := []map[string]any{}
	for number := from; number < to; number++ {
		order := fmt.Sprintf("order %d", number)
		record, err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(order)}).First()
		if err != nil {
			t.Fatal(err)
		}
		acknowledged = append(acknowledged, map[string]any{
			"topic": topic, "partition": record.Partition, "offset": record.Offset, "value": order,
		})
	}
	return acknowledged
}

func leaderOf(t *testing.T, scope string) int {
	t.Helper()
	leaders := ask(t, "GET", "/leaders?scope="+scope, nil)["leaders"].(map[string]any)
	return int(leaders[scope].(map[string]any)["node"].(float64))
}

func awaitReady(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		_, err := try("GET", "/status", nil)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func ask(t *testing.T, method, path string, fields map[string]any) map[string]any {
	t.Helper()
	answer, err := try(method, path, fields)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// try asks the cluster of `quorumlog up --http`.
func try(method, path string, fields map[string]any) (map[string]any, error) {
	url := os.Getenv("QUORUMLOG_URL")
	if url == "" {
		url = "http://127.0.0.1:18080"
	}
	body := []byte{}
	if fields != nil {
		body, _ = json.Marshal(fields)
	}
	request, err := http.NewRequest(method, url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if token := os.Getenv("QUORUMLOG_HTTP_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Timeout: 2 * time.Minute}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := map[string]any{}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s: %v", method, path, response.Status, answer["error"])
	}
	return answer, nil
}
