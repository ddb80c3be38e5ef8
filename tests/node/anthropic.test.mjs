/** The `@anthropic-ai/sdk` package for Node, unchanged, against a running node. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";

import { Node } from "./node.mjs";

const model = "ember";
const messages = [{ role: "user", content: "Tell me a story about a fire in the kitchen." }];
const input_schema = {
  type: "object",
  properties: { way: { type: "string", enum: ["up", "down"] } },
  required: ["way"],
  additionalProperties: false,
};
const tools = [{ name: "go", description: "Goes.", input_schema }];

let node;
let client;

before(async () => {
  node = await Node.start("Kitchen laptop");
  // The package must not hide a failure by trying again.
  client = new Anthropic({ baseURL: node.address, apiKey: node.key, maxRetries: 0 });
});

after(async () => {
  await node?.stop();
});

test("a stream says the same as a plain message", async () => {
  const wish = { model, messages, max_tokens: 24, temperature: 0 };
  const plain = await client.messages.create(wish);
  assert.ok(plain.content[0].text);
  assert.equal(plain.stop_reason, "max_tokens");
  let text = "";
  const stream = client.messages.stream(wish).on("text", (more) => (text += more));
  const final = await stream.finalMessage();
  assert.equal(text, plain.content[0].text);
  assert.equal(final.content[0].text, text);
  assert.equal(final.usage.output_tokens, plain.usage.output_tokens);
  const { input_tokens } = await client.messages.countTokens({ model, messages });
  assert.equal(input_tokens, plain.usage.input_tokens + plain.usage.cache_read_input_tokens);
});

test("tools are called, whole and streamed, and their results are read", async () => {
  const wish = {
    model,
    messages,
    tools,
    tool_choice: { type: "any", disable_parallel_tool_use: true },
    temperature: 0,
    max_tokens: 300,
  };
  const called = await client.messages.create(wish);
  assert.equal(called.stop_reason, "tool_use");
  const [call] = called.content;
  assert.ok(["up", "down"].includes(call.input.way));
  const streamed = await client.messages.stream(wish).finalMessage();
  assert.deepEqual(streamed.content[0].input, call.input);
  const result = { type: "tool_result", tool_use_id: call.id, content: "Done." };
  const next = await client.messages.create({
    model,
    tools,
    messages: [
      ...messages,
      { role: "assistant", content: called.content },
      { role: "user", content: [result] },
    ],
    max_tokens: 8,
  });
  assert.ok(next.usage.output_tokens > 0);
});

test("models are listed, and errors are the package's own", async () => {
  const ids = [];
  for await (const found of client.models.list()) ids.push(found.id);
  assert.deepEqual(ids, [model]);
  const stranger = new Anthropic({ baseURL: node.address, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(async () => stranger.models.list(), Anthropic.AuthenticationError);
  await assert.rejects(
    async () => client.messages.create({ model: "no-such-model", messages, max_tokens: 1 }),
    (error) =>
      error instanceof Anthropic.NotFoundError && error.error.error.type === "not_found_error",
  );
  await assert.rejects(
    async () => client.messages.create({ model, messages: Array(400).fill(messages[0]), max_tokens: 1 }),
    (error) => error.message.includes("prompt is too long"),
  );
});
