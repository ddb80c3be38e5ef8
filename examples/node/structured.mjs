/**
 * Asks Inglenook's port for JSON of a given schema.
 *
 *     INGLENOOK_KEY="$(nook key)" node structured.mjs
 *
 * The schema masks tokens while they are chosen, so even a very small model keeps to it. Only
 * Node's own `fetch` is used; the `openai` package works too.
 */

const url = process.env.INGLENOOK_URL ?? "http://127.0.0.1:4587/v1";
// The model that was added last; `GET /v1/models` lists all.
const model = process.env.INGLENOOK_MODEL ?? "default";

const schema = {
  type: "object",
  properties: {
    title: { type: "string", maxLength: 40 },
    happy: { type: "boolean" },
    animal: { enum: ["cat", "dog", "owl"] },
  },
  required: ["title", "happy", "animal"],
  additionalProperties: false,
};

const response = await fetch(`${url}/chat/completions`, {
  method: "POST",
  headers: {
    Authorization: `Bearer ${process.env.INGLENOOK_KEY}`,
    "Content-Type": "application/json",
  },
  body: JSON.stringify({
    model,
    messages: [{ role: "user", content: "Invent a children's book and describe it." }],
    response_format: { type: "json_schema", json_schema: { name: "book", schema } },
  }),
});

const answer = await response.json();
if (!response.ok) {
  console.error(answer.error.message);
  process.exit(1);
}
const [choice] = answer.choices;
if (choice.finish_reason !== "stop") {
  console.error(`the reply was cut: ${choice.finish_reason}`);
  process.exit(1);
}
const book = JSON.parse(choice.message.content);
console.log(`${book.title} (${book.animal}, ${book.happy ? "happy" : "sad"})`);
