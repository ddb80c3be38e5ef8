/** The `ollama` package for Node, unchanged, against a running node. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Ollama } from "ollama";

import { Node } from "./node.mjs";

const model = "ember";
const messages = [{ role: "user", content: "Tell me a story about a fire in the kitchen." }];
const options = { temperature: 0, num_predict: 24 };
const parameters = {
  type: "object",
  properties: { way: { type: "string", description: "Up or down." } },
  required: ["way"],
};
const tools = [{ type: "function", function: { name: "go", description: "Goes.", parameters } }];

let node;
let client;

before(async () => {
  node = await Node.start("Kitchen laptop");
  client = clientWith(node.key);
});

after(async () => {
  await node?.stop();
});

test("models are listed and shown", async () => {
  const { models } = await client.list();
  assert.deepEqual(
    models.map((one) => one.name),
    [model],
  );
  const shown = await client.show({ model });
  assert.ok(shown.capabilities.includes("completion"));
  assert.equal((await client.pull({ model })).status, "success");
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
});

test("a stream says the same as a plain reply", async () => {
  const plain = await client.chat({ model, messages, options });
  assert.ok(plain.message.content);
  assert.equal(plain.eval_count, 24);
  let text = "";
  for await (const line of await client.chat({ model, messages, options, stream: true })) {
    text += line.message.content;
  }
  assert.equal(text, plain.message.content);
  const prompt = messages[0].content;
  assert.equal((await client.generate({ model, prompt, options })).response, text);
});

test("tools are offered and their results read", async () => {
  const offered = await client.chat({ model, messages, tools, options });
  const call = { function: { name: "go", arguments: { way: "up" } } };
  const history = [
    ...messages,
    { role: "assistant", content: "", tool_calls: [call] },
    { role: "tool", content: "On the hill.", tool_name: "go" },
  ];
  const after = await client.chat({ model, messages: history, tools, options });
  assert.ok(after.prompt_eval_count > offered.prompt_eval_count);
});

test("vectors have length one", async () => {
  const { embeddings } = await client.embed({ model, input: ["The fox ran.", "Bread."] });
  assert.equal(embeddings.length, 2);
  embeddings.forEach((vector) => assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-3));
});

test("errors are the package's own", async () => {
  await assert.rejects(clientWith("wrong").list(), (error) => error.status_code === 401);
  await assert.rejects(
    client.chat({ model: "no-such-model", messages }),
    (error) => error.status_code === 404 && error.message.includes("no-such-model"),
  );
});

function clientWith(key) {
  return new Ollama({ host: node.address, headers: { Authorization: `Bearer ${key}` } });
}
