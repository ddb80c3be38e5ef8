/** The AI SDK (`ai`), unchanged, against a running node: through three of its providers. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  APICallError,
  embedMany,
  generateObject,
  generateText,
  stepCountIs,
  streamObject,
  streamText,
  tool,
} from "ai";
import { z } from "zod";

import { Node } from "./node.mjs";

const name = "ember";
const prompt = "Tell me a story about a fire in the kitchen.";
const cool = { temperature: 0, maxRetries: 0 };
const warm = { temperature: 1.5, seed: 5, maxOutputTokens: 400, maxRetries: 0 };
const go = tool({
  description: "Goes.",
  inputSchema: z.object({ way: z.enum(["up", "down"]) }),
  execute: async ({ way }) => `You went ${way}.`,
});
const schema = z.object({
  rain: z.boolean(),
  sky: z.enum(["grey", "blue"]),
  degrees: z.number().int().min(-20).max(40),
  wind: z.string().max(12).optional(),
  nothing: z.null(),
  hours: z.array(z.object({ at: z.number(), wet: z.boolean() })).max(2),
  rooms: z.record(z.enum(["kitchen", "attic"]), z.boolean()),
});

let node;
let models;

before(async () => {
  node = await Node.start("Kitchen laptop");
  const { key: apiKey, baseURL } = node;
  const openai = createOpenAI({ baseURL, apiKey });
  models = {
    compatible: createOpenAICompatible({
      name: "house",
      baseURL,
      apiKey,
      includeUsage: true,
      supportsStructuredOutputs: true,
    })(name),
    chat: openai.chat(name),
    responses: openai.responses(name),
    anthropic: createAnthropic({ baseURL, apiKey })(name),
  };
});

after(async () => {
  await node?.stop();
});

for (const kind of ["compatible", "chat", "responses", "anthropic"]) {
  describe(kind, () => {
    test("a stream says the same as a plain reply", async () => {
      const wish = { model: models[kind], prompt, ...cool, maxOutputTokens: 24 };
      const plain = await generateText(wish);
      assert.ok(plain.text);
      assert.equal(plain.finishReason, "length");
      assert.equal(plain.usage.outputTokens, 24);
      const stream = streamText(wish);
      const pieces = [];
      for await (const piece of stream.textStream) pieces.push(piece);
      assert.ok(pieces.length > 1, "it came in one lump");
      assert.equal(pieces.join(""), plain.text);
      assert.equal(await stream.finishReason, "length");
      assert.deepEqual((await stream.usage).outputTokens, plain.usage.outputTokens);
    });

    test("a tool is run, its result read, and a second turn goes on from there", async () => {
      const wish = { model: models[kind], tools: { go }, ...cool };
      const asked = [{ role: "user", content: prompt }];
      const called = await generateText({
        ...wish,
        messages: asked,
        toolChoice: "required",
        maxOutputTokens: 200,
      });
      assert.equal(called.finishReason, "tool-calls");
      assert.match(called.toolResults[0].output, /^You went (up|down)\.$/);
      const messages = [...asked, ...called.response.messages];
      const second = streamText({ ...wish, messages, toolChoice: "auto", maxOutputTokens: 8 });
      await second.consumeStream({ onError: (error) => assert.fail(error) });
      const told = await second.response;
      const third = await generateText({
        ...wish,
        messages: [...messages, ...told.messages, { role: "user", content: "Go on." }],
        maxOutputTokens: 8,
      });
      assert.ok(third.usage.inputTokens > (await second.usage).inputTokens);
    });

    test("an object keeps to its schema", async () => {
      const wish = { model: models[kind], prompt, schema, ...warm };
      const { object } = await generateObject(wish);
      assert.ok(schema.safeParse(object).success, JSON.stringify(object));
      const stream = streamObject(wish);
      let count = 0;
      for await (const _part of stream.partialObjectStream) count += 1;
      assert.ok(count > 1, "it came in one lump");
      assert.ok(schema.safeParse(await stream.object).success);
    });

    test("errors are told with what a program acts on", async () => {
      await assert.rejects(
        generateText({ model: models[kind], prompt: prompt.repeat(400), ...cool }),
        (error) =>
          APICallError.isInstance(error) &&
          error.statusCode === 400 &&
          !error.isRetryable &&
          /maximum context length|prompt is too long/.test(error.message),
      );
    });
  });
}

test("a response goes on from the one that is named, with the tools that are allowed", async () => {
  const wish = { model: models.responses, ...cool, maxOutputTokens: 16 };
  const first = await generateText({ ...wish, prompt });
  const { responseId } = first.providerMetadata.openai;
  const second = await generateText({
    ...wish,
    prompt: "Go on.",
    providerOptions: { openai: { previousResponseId: responseId } },
  });
  assert.ok(second.usage.inputTokens > first.usage.inputTokens);
  const stay = tool({ inputSchema: z.object({}), execute: () => assert.fail("not allowed") });
  const called = await generateText({
    ...wish,
    prompt,
    tools: { go, stay },
    providerOptions: { openai: { allowedTools: { toolNames: ["go"], mode: "required" } } },
    maxOutputTokens: 200,
  });
  assert.ok(called.toolCalls.every((call) => call.toolName === "go"));
  assert.ok(called.toolCalls.length > 0);
});

test("vectors have length one", async () => {
  const { key: apiKey, baseURL } = node;
  for (const provider of [
    createOpenAI({ baseURL, apiKey }),
    createOpenAICompatible({ name: "house", baseURL, apiKey }),
  ]) {
    const { embeddings } = await embedMany({
      model: provider.embeddingModel(name),
      values: ["The fox ran.", "Bread."],
      maxRetries: 0,
    });
    assert.equal(embeddings.length, 2);
    embeddings.forEach((vector) => assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-3));
  }
});

test("the loop of an agent ends by itself", async () => {
  const { steps } = await generateText({
    model: models.responses,
    prompt,
    tools: { go },
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "auto" }),
    stopWhen: stepCountIs(3),
    ...cool,
    maxOutputTokens: 200,
  });
  assert.equal(steps[0].toolResults.length, 1);
  assert.ok(steps.length > 1);
});
