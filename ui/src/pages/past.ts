/** One of the last replies, in words. Pure. */
import type { HappenedView } from '../generated/HappenedView';
import type { PastReplyView } from '../generated/PastReplyView';
import type { ReplyEndView } from '../generated/ReplyEndView';
import type { RouteView } from '../generated/RouteView';
import { listOf, seconds, speed, whole } from '../kit/words';
import { t } from '../strings';

/** Everybody who computed a part of it, each once, in the order in which they came; also those that left. */
export function helpersOf({ route, happened }: Pick<PastReplyView, 'route' | 'happened'>): string {
  const later = happened.flatMap((one): RouteView[] => (one.kind === 'took_over' || one.kind === 'took_over_here' ? [one.route] : []));
  const names = [route, ...later].flatMap(({ legs }) => legs.map((leg) => (leg.local ? t.route.here : leg.device)));
  return listOf([...new Set(names)]);
}

export function happenedWords(happened: HappenedView): string {
  switch (happened.kind) {
    case 'lost': return t.past.lost(happened.device);
    case 'awaited': return t.past.awaited(happened.device);
    case 'shared': return t.past.shared(happened.device);
    case 'took_over': {
      const { to, from, after_tokens, pause_ms } = happened.failover;
      return t.past.tookOver(to, from, whole(after_tokens), seconds(pause_ms));
    }
    case 'took_over_here': return t.past.tookOverHere;
  }
}

export function endedWords(end: ReplyEndView): string {
  switch (end.kind) {
    case 'under_way': return t.past.underWay;
    case 'done': return t.past.done(whole(end.tokens), speed(end.speed.tokens_per_second), seconds(end.speed.first_token_ms));
    case 'aborted': return t.past.aborted(end.code);
    case 'stopped': return t.past.stopped;
  }
}
