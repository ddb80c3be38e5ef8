/** One thing that a person asked for: whether it is under way, and why it did not happen. */
import { announcer } from './announcer.svelte';

export class Attempt {
  busy = $state(false);
  problem = $state<string | null>(null);

  /** Does `work`; says whether it happened. While it is under way a second one is not begun. */
  async run(work: () => Promise<unknown>, explain: (reason: string) => string = (reason) => reason): Promise<boolean> {
    if (this.busy) return false;
    this.busy = true;
    this.problem = null;
    try {
      await work();
      return true;
    } catch (thrown) {
      this.problem = explain(thrown instanceof Error ? thrown.message : String(thrown));
      announcer.say(this.problem);
      return false;
    } finally {
      this.busy = false;
    }
  }
}
