// Orders are sent while their leader dies. What was acknowledged must be there in the end, on every replica.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Kafka, logLevel } from "kafkajs";

const url = process.env.QUORUMLOG_URL ?? "http://127.0.0.1:18080";
const token = process.env.QUORUMLOG_HTTP_TOKEN;
const topic = "node-orders";

/** Asks the cluster of `quorumlog up --http`. */
async function ask(method, path, fields) {
  const answer = await fetch(url + path, {
    method,
    body: fields === undefined ? undefined : JSON.stringify(fields),
    headers: token ? { Authorization: `Bearer ${token}` } : {},
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${found.error}`);
  return found;
}

async function awaitReady() {
  for (const end = Date.now() + 60_000; ; await sleep(200)) {
    try {
      return await ask("GET", "/status");
    } catch (notYet) {
      if (Date.now() > end) throw notYet;
    }
  }
}

async function leader() {
  const scope = `${topic}-0`;
  return (await ask("GET", `/leaders?scope=${scope}`)).leaders[scope].node;
}

async function send(producer, from, to) {
  const acknowledged = [];
  for (let number = from; number < to; number++) {
    const value = `order ${number}`;
    const [place] = await producer.send({ topic, acks: -1, messages: [{ value, partition: 0 }] });
    acknowledged.push({ topic, partition: place.partition, offset: Number(place.baseOffset), value });
  }
  return acknowledged;
}

test("acknowledged orders survive the leader", async () => {
  const status = await awaitReady();
  await ask("POST", "/heal");
  await ask("DELETE", "/acknowledged");
  const brokers = status.clients["bootstrap.servers"].split(",");
  const kafka = new Kafka({ brokers, logLevel: logLevel.NOTHING, retry: { retries: 20 } });
  const producer = kafka.producer({ allowAutoTopicCreation: true, idempotent: true });
  await producer.connect();

  const acknowledged = await send(producer, 0, 20);
  const first = await leader();
  await ask("POST", "/faults", { kind: "kill", nodes: [first] });
  acknowledged.push(...(await send(producer, 20, 40)));
  assert.notEqual(await leader(), first);
  await producer.disconnect();

  await ask("POST", "/acknowledged", { records: acknowledged });
  const found = await ask("POST", "/check", { within_s: 60 });
  assert.ok(found.valid, JSON.stringify(found.broken));
});
