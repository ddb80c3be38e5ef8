/** The `openai` package for Node, unchanged, against a running node. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { Node } from "./node.mjs";

const model = "ember";
const messages = [{ role: "user", content: "Tell me a story about a fire in the kitchen." }];
const parameters = {
  type: "object",
  properties: { way: { type: "string", enum: ["up", "down"] } },
  required: ["way"],
  additionalProperties: false,
};
const tools = [{ type: "function", function: { name: "go", description: "Goes.", parameters } }];
const schema = {
  type: "object",
  properties: { rain: { type: "boolean" }, sky: { type: "string", enum: ["grey", "blue"] } },
  required: ["rain", "sky"],
  additionalProperties: false,
};

const step = z.object({ way: z.enum(["up", "down"]), metres: z.number().int().min(0).max(99) });
const walk = z.object({
  first: step,
  then: step.nullable(),
  by: z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("foot"), fast: z.boolean() }),
    z.object({ kind: z.literal("bus"), line: z.string().regex(/^[1-9][0-9][A-C]$/) }),
  ]),
  day: z.iso.date(),
  steps: z.array(step).max(2),
});

let node;
let client;

before(async () => {
  node = await Node.start("Kitchen laptop");
  // The package must not hide a failure by trying again.
  client = new OpenAI({ baseURL: node.baseURL, apiKey: node.key, maxRetries: 0 });
});

after(async () => {
  await node?.stop();
});

test("the built-in model is listed", async () => {
  const ids = [];
  for await (const found of client.models.list()) ids.push(found.id);
  assert.deepEqual(ids, [model]);
  assert.ok((await client.models.retrieve(model)).context_length > 0);
});

test("a stream says the same as a plain reply", async () => {
  const wish = { model, messages, temperature: 0, max_tokens: 24 };
  const plain = await client.chat.completions.create(wish);
  assert.ok(plain.choices[0].message.content);
  assert.equal(
    plain.usage.total_tokens,
    plain.usage.prompt_tokens + plain.usage.completion_tokens,
  );
  const stream = await client.chat.completions.create({
    ...wish,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, plain.choices[0].message.content);
  assert.deepEqual(usage, plain.usage);
});

test("log probabilities come with every token", async () => {
  const wish = { model, messages, temperature: 0, max_tokens: 6, logprobs: true, top_logprobs: 2 };
  const { content } = (await client.chat.completions.create(wish)).choices[0].logprobs;
  assert.ok(content.length > 0);
  for (const token of content) {
    assert.equal(token.top_logprobs.length, 2);
    assert.equal(token.token, token.top_logprobs[0].token);
    assert.ok(token.logprob <= 0);
  }
});

test("tools are called, whole and streamed, and their results are read", async () => {
  const wish = {
    model,
    messages,
    tools,
    tool_choice: "required",
    parallel_tool_calls: false,
    temperature: 0,
    max_tokens: 200,
  };
  const { message, finish_reason } = (await client.chat.completions.create(wish)).choices[0];
  assert.equal(finish_reason, "tool_calls");
  assert.equal(message.content, null);
  const [call] = message.tool_calls;
  assert.equal(call.function.name, "go");
  assert.ok(["up", "down"].includes(JSON.parse(call.function.arguments).way));
  // The package's own reader of streams puts the pieces together.
  const streamed = await client.chat.completions.stream(wish).finalChatCompletion();
  assert.deepEqual(
    streamed.choices[0].message.tool_calls.map((one) => one.function.arguments),
    [call.function.arguments],
  );
  const next = await client.chat.completions.create({
    model,
    tools,
    messages: [...messages, message, { role: "tool", tool_call_id: call.id, content: "Done." }],
    max_tokens: 8,
  });
  assert.ok(next.usage.prompt_tokens > 0);
});

test("structured output keeps to its schema", async () => {
  const reply = await client.chat.completions.parse({
    model,
    messages,
    max_tokens: 64,
    temperature: 1.5,
    seed: 5,
    response_format: { type: "json_schema", json_schema: { name: "weather", strict: true, schema } },
  });
  const weather = JSON.parse(reply.choices[0].message.content);
  assert.equal(typeof weather.rain, "boolean");
  assert.ok(["grey", "blue"].includes(weather.sky));
  await assert.rejects(
    client.chat.completions.create({
      model,
      messages,
      response_format: {
        type: "json_schema",
        json_schema: { name: "x", schema: { $ref: "https://example.com/x" } },
      },
    }),
    (error) => error instanceof OpenAI.BadRequestError && error.message.includes("example.com"),
  );
});

test("a class of Zod is kept to, in a reply and in a call", async () => {
  const warm = { model, temperature: 1.5 };
  for (const seed of [1, 2, 3]) {
    const held = await client.chat.completions.parse({
      ...warm,
      messages,
      seed,
      response_format: zodResponseFormat(walk, "walk"),
    });
    assert.ok(walk.safeParse(held.choices[0].message.parsed).success);
    const called = await client.chat.completions.parse({
      ...warm,
      messages,
      seed,
      tools: [zodFunction({ name: "go", parameters: step })],
      tool_choice: "required",
      parallel_tool_calls: false,
    });
    const [call] = called.choices[0].message.tool_calls;
    assert.ok(step.safeParse(call.function.parsed_arguments).success);
  }
  const input = messages[0].content;
  const text = { format: zodTextFormat(walk, "walk") };
  const held = await client.responses.parse({ ...warm, input, text });
  assert.ok(walk.safeParse(held.output_parsed).success);
});

test("a pattern that looks around cannot be kept to, and refuses nothing", async () => {
  const line = z.object({ line: z.string().max(8).regex(/^(?!0)[0-9]{2}[A-C]$/) });
  const reply = await client.chat.completions.create({
    model,
    messages,
    temperature: 0,
    response_format: zodResponseFormat(line, "line"),
  });
  const sent = JSON.parse(reply.choices[0].message.content);
  assert.ok(typeof sent.line === "string" && sent.line.length <= 8);
});

test("vectors come as numbers, which the package asks for in base64", async () => {
  const input = ["The fox ran up the hill.", "Bread is in the oven."];
  const usual = await client.embeddings.create({ model, input });
  const plain = await client.embeddings.create({ model, input, encoding_format: "float" });
  assert.equal(usual.data.length, 2);
  usual.data.forEach(({ embedding }, at) => {
    const length = Math.hypot(...embedding);
    assert.ok(Math.abs(length - 1) < 1e-3);
    embedding.forEach((number, index) => {
      assert.ok(Math.abs(number - plain.data[at].embedding[index]) < 1e-6);
    });
  });
});

test("plain text is continued", async () => {
  const wish = { model, prompt: ["Once upon a time", "The fox"], max_tokens: 8, temperature: 0 };
  const whole = await client.completions.create(wish);
  const texts = ["", ""];
  for await (const chunk of await client.completions.create({ ...wish, stream: true })) {
    for (const choice of chunk.choices) texts[choice.index] += choice.text;
  }
  assert.deepEqual(texts, whole.choices.map((choice) => choice.text));
});

test("responses come whole and as typed events", async () => {
  const wish = { model, input: "Tell me a story.", max_output_tokens: 12, temperature: 0 };
  const whole = await client.responses.create(wish);
  assert.ok(whole.output_text);
  const kinds = [];
  let text = "";
  const stream = client.responses.stream(wish);
  for await (const event of stream) {
    kinds.push(event.type);
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  assert.equal(text, whole.output_text);
  assert.equal(kinds[0], "response.created");
  assert.ok(["response.completed", "response.incomplete"].includes(kinds.at(-1)));
  const called = await client.responses.create({
    ...wish,
    max_output_tokens: 200,
    tools: [{ type: "function", name: "go", parameters, strict: true }],
    tool_choice: "required",
    parallel_tool_calls: false,
  });
  assert.equal(called.output[0].type, "function_call");
  assert.ok(JSON.parse(called.output[0].arguments).way);
  await assert.rejects(
    client.responses.create({ ...wish, previous_response_id: "resp_1" }),
    (error) => error.status === 400 && error.param === "previous_response_id",
  );
});

test("errors are the package's own", async () => {
  const stranger = new OpenAI({ baseURL: node.baseURL, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
  await assert.rejects(
    client.chat.completions.create({ model: "no-such-model", messages }),
    (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found",
  );
  await assert.rejects(
    client.chat.completions.create({ model, messages: Array(400).fill(messages[0]) }),
    (error) => error.code === "context_length_exceeded",
  );
});

test("leaving a stream ends it", async () => {
  const stream = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 800,
    temperature: 10,
    top_p: 1,
    seed: 1,
    stream: true,
  });
  for await (const chunk of stream) {
    if (chunk.choices[0].delta.content) break;
  }
  assert.ok(stream.controller.signal.aborted);
});
