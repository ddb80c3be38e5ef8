/** LangChain's `@langchain/openai`, unchanged, against a running node. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { ContextOverflowError } from "@langchain/core/errors";
import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";

import { Node } from "./node.mjs";

const model = "ember";
const question = "Tell me a story about a fire in the kitchen.";
const schema = z.object({
  rain: z.boolean(),
  sky: z.enum(["grey", "blue"]),
  rooms: z.record(z.enum(["kitchen", "attic"]), z.boolean()),
});
const go = tool(({ way }) => `You went ${way}.`, {
  name: "go",
  description: "Goes.",
  schema: z.object({ way: z.enum(["up", "down"]) }),
});

let node;

before(async () => {
  node = await Node.start("Kitchen laptop");
});

after(async () => {
  await node?.stop();
});

for (const useResponsesApi of [false, true]) {
  describe(useResponsesApi ? "responses" : "chat", () => {
    test("a stream says the same as a plain reply", async () => {
      const chat = chatWith({ useResponsesApi, maxTokens: 24 });
      const plain = await chat.invoke(question);
      assert.ok(plain.text);
      assert.equal(plain.usage_metadata.output_tokens, 24);
      let whole;
      let count = 0;
      for await (const chunk of await chat.stream(question)) {
        whole = whole ? whole.concat(chunk) : chunk;
        count += 1;
      }
      assert.ok(count > 1, "it came in one lump");
      assert.equal(whole.text, plain.text);
      assert.equal(whole.usage_metadata.output_tokens, 24);
    });

    test("a tool is called and its result read", async () => {
      const chat = chatWith({ useResponsesApi, maxTokens: 200 });
      const forced = chat.bindTools([go], { tool_choice: "go", parallel_tool_calls: false });
      const said = await forced.invoke(question);
      assert.equal(said.tool_calls.length, 1);
      const result = await go.invoke(said.tool_calls[0]);
      assert.match(result.content, /^You went (up|down)\.$/);
      const next = await chat.bindTools([go]).invoke([new HumanMessage(question), said, result]);
      assert.ok(next.usage_metadata.input_tokens > said.usage_metadata.input_tokens);
    });

    test("a structured reply keeps to its schema", async () => {
      const chat = chatWith({ useResponsesApi, maxTokens: 200, temperature: 1.5 });
      for (const method of ["jsonSchema", "functionCalling"]) {
        const held = chat.withStructuredOutput(schema, { method, name: "weather" });
        const said = await held.invoke(question);
        assert.ok(schema.safeParse(said).success, `${method}: ${JSON.stringify(said)}`);
      }
    });

    test("a conversation that is too long is known by its class", async () => {
      const chat = chatWith({ useResponsesApi });
      await assert.rejects(chat.invoke(question.repeat(400)), ContextOverflowError);
    });
  });
}

test("vectors have length one", async () => {
  const vectors = new OpenAIEmbeddings({ model, ...where() });
  const found = await vectors.embedDocuments(["The fox ran.", "Bread."]);
  assert.equal(found.length, 2);
  found.forEach((vector) => assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-3));
});

test("plain text is continued", async () => {
  const text = new OpenAI({ model, temperature: 0, maxTokens: 8, ...where() });
  const whole = await text.invoke("Once upon a time");
  let streamed = "";
  for await (const piece of await text.stream("Once upon a time")) streamed += piece;
  assert.ok(whole);
  assert.equal(streamed, whole);
});

function chatWith(more) {
  return new ChatOpenAI({ model, temperature: 0, ...where(), ...more });
}

/** The address and the key; the package must not hide a failure by trying again. */
function where() {
  return { apiKey: node.key, maxRetries: 0, configuration: { baseURL: node.baseURL } };
}
