// kafkajs: `node transact.js BOOTSTRAP INPUT OUTPUT COUNT`. It copies each record of INPUT to OUTPUT in a transaction
// with its offset, and aborts every fifth on purpose before it does so again. It ends once COUNT are committed.
const { Kafka, logLevel, CompressionTypes } = require('kafkajs');

const [bootstrap, input, output, count] = process.argv.slice(2);
const kafka = new Kafka({
  clientId: 'foreign', brokers: bootstrap.split(','), logLevel: logLevel.ERROR, retry: { retries: 30, maxRetryTime: 3000 },
});
const transactional = { transactionalId: 'foreign-kafkajs', maxInFlightRequests: 1, idempotent: true };

async function copy(producer, topic, partition, message, commits) {
  const transaction = await producer.transaction();
  try {
    const value = commits ? message.value : `aborted ${message.value}`;
    await transaction.send({ topic: output, compression: CompressionTypes.GZIP, messages: [{ key: message.key, value }] });
    const offset = (BigInt(message.offset) + 1n).toString();
    await transaction.sendOffsets({
      consumerGroupId: 'foreign-kafkajs', topics: [{ topic, partitions: [{ partition, offset }] }],
    });
  } catch (error) {
    await transaction.abort();
    throw error;
  }
  await (commits ? transaction.commit() : transaction.abort());
}

async function main() {
  const producer = kafka.producer(transactional);
  const consumer = kafka.consumer({ groupId: 'foreign-kafkajs', sessionTimeout: 10000, heartbeatInterval: 1000 });
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topics: [input], fromBeginning: true });
  const seen = new Set();
  await new Promise((done) => {
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => {
        if (Number(message.offset) % 5 === 0) await copy(producer, topic, partition, message, false);
        await copy(producer, topic, partition, message, true);
        seen.add(message.value.toString());
        if (seen.size >= Number(count)) done();
      },
    });
  });
  await consumer.disconnect();
  await producer.disconnect();
  console.log(`copied: ${seen.size}`);
}

main().catch((error) => { console.error(error); process.exit(1); });
