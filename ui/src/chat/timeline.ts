/** Who did what for a reply, as rows of a table in words. Pure; figures only. */
import type { PartView } from '../generated/PartView';
import type { WorkView } from '../generated/WorkView';
import { bytes, exactSeconds, whole } from '../kit/words';
import { t } from '../strings';

export interface TimelineRow {
  key: number;
  device: string;
  /** In the order of the columns behind the device. */
  cells: readonly string[];
}

/** The columns behind the device. */
export function columns(): string[] {
  const { layers, tokens, prompt, reply, network, waiting, bytes: sent } = t.timeline;
  return [layers, tokens, prompt, reply, network, waiting, sent];
}

export function rowsOf(timeline: readonly PartView[]): TimelineRow[] {
  return timeline.map((part, key) => ({
    key,
    device: part.local ? t.route.here : part.device,
    cells: [
      part.layers === null ? t.timeline.none : t.timeline.span(...part.layers),
      part.last_token === 0 ? t.timeline.none : t.timeline.span(part.first_token, part.last_token),
      work(part.prompt),
      work(part.reply),
      part.local ? t.timeline.none : time(part.prompt.network_ms + part.reply.network_ms),
      time(part.prompt.queue_ms + part.reply.queue_ms),
      part.local ? t.timeline.none : t.timeline.both(bytes(part.bytes_out), bytes(part.bytes_in)),
    ],
  }));
}

function time(ms: number): string {
  return t.timeline.time(exactSeconds(ms));
}

function work({ steps, positions, compute_ms }: WorkView): string {
  return steps === 0 ? t.timeline.none : t.timeline.work(exactSeconds(compute_ms), whole(positions));
}
