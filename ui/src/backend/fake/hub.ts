/** What the fake household finds on the hub: two repositories, of which one has models. “offline” finds no hub. */
import type { HubModelView } from '../../generated/HubModelView';
import type { HubView } from '../../generated/HubView';
import { HERE } from './models';
import { refuse } from './refuse';

const REPOSITORY = 'unsloth/Qwen3.5-4B-GGUF';

function model(name: string, file_bytes: number, values: Partial<HubModelView> = {}): HubModelView {
  return { source: `hf:${REPOSITORY}/${name}`, file: name, file_bytes, pieces: 1, fit: HERE, ...values };
}

const MODELS: HubModelView[] = [
  model('Qwen3.5-4B-Q4_K_M.gguf', 2.74e9),
  model('Qwen3.5-4B-Q8_0.gguf', 4.48e9, { fit: { kind: 'with', devices: ['Dad’s PC'], tokens_per_second: null } }),
  model('Qwen3.5-4B-BF16.gguf', 84.2e9, {
    source: `hf:${REPOSITORY}/BF16/Qwen3.5-4B-BF16-00001-of-00002.gguf`,
    pieces: 2,
    fit: { kind: 'nowhere', devices: [], tokens_per_second: null },
  }),
];

export function hubAnswer(words: string): Promise<HubView> {
  if (words === 'offline') return refuse('pipeline_stalled', 'Huggingface.co did not answer.');
  if (words.includes('/')) {
    return Promise.resolve({ repository: words, repositories: [], models: words === REPOSITORY ? MODELS : [] });
  }
  const repositories = [{ name: REPOSITORY, downloads: 1_234_567 }, { name: 'someone/Qwen-odd-GGUF', downloads: null }];
  const found = repositories.filter((one) => one.name.toLowerCase().includes(words.toLowerCase()));
  return Promise.resolve({ repository: null, repositories: found, models: [] });
}
