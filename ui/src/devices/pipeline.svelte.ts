/** How the last replies were divided, as the node last said: the household's page asks again and again while it shows. */
import type { Backend } from '../backend/backend';
import type { PipelineView } from '../generated/PipelineView';

export class PipelineNews {
  view = $state.raw<PipelineView | null>(null);
  readonly #backend: Backend;
  #isAsked = false;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** Asks, unless an answer is on its way. */
  async look(): Promise<void> {
    if (this.#isAsked) return;
    this.#isAsked = true;
    try {
      this.view = await this.#backend.pipeline();
    } catch {
      // The page says what it knew; a node that does not answer is told by the window itself.
    } finally {
      this.#isAsked = false;
    }
  }
}
