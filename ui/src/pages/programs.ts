/** Settings for other programs, ready to paste. Names are quoted for where they stand. Pure. */
import { t } from '../strings';

export interface Port {
  /** `http://127.0.0.1:4587/v1`. */
  url: string;
  key: string;
  /** Name of the model. */
  model: string;
  /** Tokens that it can hold. */
  window: number;
}

export interface Program {
  name: string;
  /** Where the settings belong. */
  where: () => string;
  settings: (port: Port) => string;
}

/** A text as one word of a shell of POSIX. */
function word(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** A text as a string of JSON, which YAML and Python read the same. */
const quoted = (text: string) => JSON.stringify(text);

export const PROGRAMS: readonly Program[] = [
  {
    name: 'Open WebUI',
    where: () => t.port.whereOpenWebUi,
    settings: ({ url, key }) => `OPENAI_API_BASE_URL=${word(url)}\nOPENAI_API_KEY=${word(key)}`,
  },
  {
    name: 'Continue',
    where: () => t.port.whereContinue,
    settings: ({ url, key, model }) =>
      ['name: Inglenook', 'version: 1.0.0', 'schema: v1', 'models:', `  - name: ${quoted(model)}`, '    provider: openai',
        `    model: ${quoted(model)}`, `    apiBase: ${quoted(url)}`, `    apiKey: ${quoted(key)}`].join('\n'),
  },
  {
    name: 'Zed',
    where: () => t.port.whereZed,
    settings: ({ url, model, window }) =>
      JSON.stringify({ language_models: { openai_compatible: { Inglenook: {
        api_url: url, available_models: [{ name: model, display_name: model, max_tokens: window }],
      } } } }, null, 2),
  },
  {
    name: 'Python, LangChain',
    where: () => t.port.wherePython,
    settings: ({ url, key, model }) =>
      ['from openai import OpenAI', '', `client = OpenAI(base_url=${quoted(url)}, api_key=${quoted(key)})`,
        'reply = client.chat.completions.create(', `    model=${quoted(model)},`,
        '    messages=[{"role": "user", "content": "Hello"}],', ')', 'print(reply.choices[0].message.content)', '',
        '# LangChain', 'from langchain_openai import ChatOpenAI', '',
        `chat = ChatOpenAI(base_url=${quoted(url)}, api_key=${quoted(key)}, model=${quoted(model)})`].join('\n'),
  },
  {
    name: 'aider',
    where: () => t.port.whereAider,
    settings: ({ url, key, model }) =>
      `export OPENAI_API_BASE=${word(url)}\nexport OPENAI_API_KEY=${word(key)}\naider --model ${word(`openai/${model}`)}`,
  },
  {
    name: 'curl',
    where: () => t.port.whereCurl,
    settings: ({ url, key, model }) =>
      [`curl ${word(`${url}/chat/completions`)} \\`, `  -H ${word(`Authorization: Bearer ${key}`)} \\`,
        "  -H 'Content-Type: application/json' \\",
        `  -d ${word(JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }))}`].join('\n'),
  },
];
