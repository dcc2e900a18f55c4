'use strict';

/**
 * The client `ali-ons` for JavaScript, each promise with a line of its own:
 * `NODE_PATH=... node foreign_client.js forms NAMESRV TOPIC`, for a topic that exists;
 * `node foreign_client.js failover NAMESRV TOPIC`, which prints `now` when it is time to kill a master, and reads a line after that.
 */

const readline = require('readline');
const { Consumer, Message, Producer } = require('ali-ons');

const COUNT = 20;
const WITHIN_MS = 30000;
const ASK_AGAIN_MS = 20;
const [ , , mode, nameSrv, topic ] = process.argv;
const quiet = { info() {}, debug() {}, warn() {}, error() {} };
const settings = {
  nameSrv,
  httpclient: { async request() { throw new Error('not used: the name server is given'); } },
  logger: quiet,
  pollNameServerInteval: 1000, // as the client spells it
  heartbeatBrokerInterval: 1000,
  persistConsumerOffsetInterval: 1000,
  rebalanceInterval: 1000,
  pullTimeDelayMillsWhenException: 200,
  consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
};

function said(promise, kept) {
  console.log(`${kept ? 'kept' : 'BROKEN'}: ${promise}`);
}

function sleep(ms) {
  return new Promise(resolve => setTimeout(resolve, ms));
}

async function eventually(condition) {
  const end = Date.now() + WITHIN_MS;
  while (!condition()) {
    if (Date.now() > end) return false;
    await sleep(ASK_AGAIN_MS);
  }
  return true;
}

function message(tag, body) {
  const made = new Message(topic, tag, body);
  made.keys = [ `key-${body.slice(0, 20)}` ];
  return made;
}

async function produced() {
  const producer = new Producer({ ...settings, producerGroup: 'producers' });
  producer.on('error', () => {}); // of connections, when a master is killed
  await producer.ready();
  return producer;
}

function consumed(group, tags, handler) {
  const consumer = new Consumer({ ...settings, consumerGroup: group, maxReconsumeTimes: 2 });
  consumer.on('error', () => {});
  consumer.subscribe(topic, tags, handler);
  return consumer;
}

function collected(found) {
  return async each => {
    found.push({ body: each.body.toString(), tags: each.tags, keys: each.keys, tries: each.reconsumeTimes });
  };
}

async function forms() {
  const producer = await produced();
  const results = [];
  for (let number = 0; number < COUNT; number++) results.push(await producer.send(message('TagA', `sync-${number}`)));
  said('send', results.every(each => each.sendStatus === 'SEND_OK'));
  const sharded = [];
  for (let number = 0; number < COUNT; number++) {
    const made = message('TagB', `sharded-${number}`);
    made.shardingKey = 'order';
    sharded.push(await producer.send(made));
  }
  said('a sharding key chooses one queue of each broker', new Set(sharded.map(each => each.messageQueue.queueId)).size === 1);
  const large = 'large-'.padEnd(100000, 'x');
  await producer.send(message('TagC', large));
  const delayed = message('TagC', 'delayed');
  delayed.delayTimeLevel = 1;
  said('delayed', (await producer.send(delayed)).sendStatus === 'SEND_OK');

  const all = [];
  consumed(`${topic}-all`, '*', collected(all));
  said('push consumer gets all', await eventually(() => new Set(all.map(each => each.body)).size === 2 * COUNT + 2));
  said('nothing twice', all.length === 2 * COUNT + 2);
  said('large body, compressed by the client', all.some(each => each.body === large));
  said('keys as they were sent', all.every(each => each.keys === `key-${each.body.slice(0, 20)}`));
  const some = [];
  consumed(`${topic}-some`, 'TagB || TagC', collected(some));
  said('filter by tags', await eventually(() => some.length === COUNT + 2) && some.every(each => each.tags !== 'TagA'));

  const tries = [];
  consumed(`${topic}-retry`, 'Retried', async each => {
    tries.push(each.reconsumeTimes);
    if (tries.length < 3) throw new Error('not yet');
  });
  await producer.send(message('Retried', 'fails'));
  said('what failed comes again', await eventually(() => tries.length === 3) && tries.join() === '0,1,2');
}

async function failover() {
  const producer = await produced();
  const found = new Set();
  consumed(`${topic}-failover`, '*', async each => { found.add(each.body.toString()); });
  const acknowledged = [];
  const sends = async body => {
    const result = await producer.send(message('TagA', body));
    if (result.sendStatus === 'SEND_OK') acknowledged.push(body);
    return result.sendStatus === 'SEND_OK';
  };
  for (let number = 0; number < 5 * COUNT; number++) await sends(`before-${number}`);
  said('sent before', await eventually(() => acknowledged.every(each => found.has(each))));
  let killed = null;
  readline.createInterface({ input: process.stdin }).on('line', line => { killed = line; });
  console.log('now');
  let number = 0;
  let errors = 0;
  let since = 0;
  let slowest = 0;
  const end = Date.now() + 2 * WITHIN_MS;
  while (since < 5 * COUNT && Date.now() < end) {
    const began = Date.now();
    try {
      if (await sends(`since-${number++}`)) {
        if (killed !== null) since++;
        slowest = Math.max(slowest, Date.now() - began);
      }
    } catch (error) {
      errors++;
    }
    await sleep(1); // so that the line is read
  }
  console.log(`master ${killed} killed: ${errors} sends failed, ${slowest} ms the slowest of the others`);
  said('the producer goes on', since === 5 * COUNT);
  said('the consumer gets all that was acknowledged', await eventually(() => acknowledged.every(each => found.has(each))));
}

(mode === 'forms' ? forms() : failover()).then(() => process.exit(0), error => {
  console.log(`BROKEN: ${error.stack}`);
  process.exit(1);
});
