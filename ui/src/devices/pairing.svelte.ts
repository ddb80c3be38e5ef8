/** Adding a device: showing a code here, or typing the one that the other computer shows. */
import { Refusal, type Backend } from '../backend/backend';
import type { DeviceView } from '../generated/DeviceView';
import type { PairTarget } from '../generated/PairTarget';
import type { PairingView } from '../generated/PairingView';
import { announcer } from '../kit/announcer.svelte';
import { t } from '../strings';

const CODE_DIGITS = 6;

/** The digits of what was typed: people copy codes with spaces and dashes. */
export function digitsOf(typed: string): string {
  return typed.replace(/\D/g, '').slice(0, CODE_DIGITS);
}

/** `483920` as it is shown and typed: `483 920`. */
export function inGroups(digits: string): string {
  return digits.length > CODE_DIGITS / 2 ? `${digits.slice(0, 3)} ${digits.slice(3)}` : digits;
}

/** `483920` as it is read out: digit by digit, with a pause in the middle. */
export function spelled(code: string): string {
  return inGroups(code).split(' ').map((half) => half.split('').join(' ')).join(', ');
}

/** Seconds that a code is still good for. */
export function secondsLeft(pairing: PairingView, now: number): number {
  return Math.max(0, pairing.expires - now);
}

export class ShowCode {
  problem = $state<string | null>(null);
  busy = $state(false);
  readonly #backend: Backend;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  async show(): Promise<void> {
    await this.#run(async () => {
      announcer.say(t.pairing.codeLabel(spelled((await this.#backend.showCode()).code)));
    });
  }

  async hide(): Promise<void> {
    await this.#run(() => this.#backend.cancelPairing());
  }

  async #run(work: () => Promise<void>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.problem = null;
    try {
      await work();
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
    } finally {
      this.busy = false;
    }
  }
}

export class TypeCode {
  /** Digits typed so far. */
  digits = $state('');
  address = $state('');
  problem = $state<string | null>(null);
  done = $state<string | null>(null);
  busy = $state(false);
  /** The device chosen from the list; null follows the only one that shows a code. */
  #chosen = $state<string | null>(null);
  readonly #backend: Backend;
  readonly #seen: () => readonly DeviceView[];

  /** `seen`: the unpaired devices in reach. */
  constructor(backend: Backend, seen: () => readonly DeviceView[]) {
    this.#backend = backend;
    this.#seen = seen;
  }

  /** Devices that show a code now, and the chosen one even if it does not. */
  readonly offers = $derived.by(() => this.#seen().filter((d) => d.pairing || d.id === this.#chosen));

  readonly chosen = $derived.by(() => {
    if (this.offers.some((device) => device.id === this.#chosen)) return this.#chosen;
    return this.offers.length === 1 ? (this.offers[0]?.id ?? null) : null;
  });

  choose(device: string): void {
    this.#chosen = device;
    this.address = '';
    this.problem = null;
  }

  type(text: string): void {
    this.digits = digitsOf(text);
    this.problem = null;
    this.done = null;
  }

  /** A typed address wins over the list: who types one means it. */
  get #target(): PairTarget | null {
    const address = this.address.trim();
    if (address !== '') return { kind: 'address', at: address };
    return this.chosen === null ? null : { kind: 'seen', at: this.chosen };
  }

  async join(): Promise<void> {
    const target = this.#target;
    this.done = null;
    if (target === null || this.digits.length < CODE_DIGITS) {
      this.problem = target === null ? t.pairing.needTarget : t.pairing.needCode;
      return;
    }
    if (this.busy) return;
    this.busy = true;
    this.problem = null;
    try {
      const device = await this.#backend.join(target, this.digits);
      this.done = t.pairing.done(device.name);
      this.address = '';
      this.#chosen = null;
      announcer.say(this.done);
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
    } finally {
      // A code is good for one pairing; a wrong one must be typed anew.
      this.digits = '';
      this.busy = false;
    }
  }
}
