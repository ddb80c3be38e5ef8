/** Adding a device: which step it is at, showing a code here, or typing the one that the other computer shows. */
import { Refusal, type Backend } from '../backend/backend';
import type { DeviceView } from '../generated/DeviceView';
import type { HouseholdView } from '../generated/HouseholdView';
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

  /** Shows a code; says whether there is one now. */
  async show(): Promise<boolean> {
    return this.#run(async () => {
      announcer.say(t.pairing.codeLabel(spelled((await this.#backend.showCode()).code)));
    });
  }

  /** Withdraws the code that is shown. */
  async hide(): Promise<boolean> {
    return this.#run(() => this.#backend.cancelPairing());
  }

  async #run(work: () => Promise<void>): Promise<boolean> {
    if (this.busy) return false;
    this.busy = true;
    this.problem = null;
    try {
      await work();
      return true;
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
      return false;
    } finally {
      this.busy = false;
    }
  }
}

/** What kind of thing went wrong, as far as the dialog has a title for it. */
export type Failure = 'wrong' | 'expired' | 'no_answer' | 'busy' | 'other';

function failureOf(thrown: unknown): Failure {
  if (!(thrown instanceof Refusal)) return 'other';
  if (thrown.code === 'rate_limited' || thrown.code === 'busy') return 'busy';
  switch (thrown.wording) {
    case 'wrong_code': return 'wrong';
    case 'no_code_shown': return 'expired';
    case 'nobody_there':
    case 'pairing_lost': return 'no_answer';
    default: return 'other';
  }
}

export class TypeCode {
  /** Digits typed so far. */
  digits = $state('');
  address = $state('');
  problem = $state<string | null>(null);
  /** What kind of problem it is; null while there is none, or something is missing here. */
  failure = $state<Failure | null>(null);
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

  /** Whether everything is there that pairing takes. */
  get isComplete(): boolean {
    return this.#target !== null && this.digits.length === CODE_DIGITS;
  }

  choose(device: string | null): void {
    this.#chosen = device;
    this.address = '';
    this.#forget();
  }

  type(text: string): void {
    this.digits = digitsOf(text);
    this.#forget();
  }

  #forget(): void {
    this.problem = null;
    this.failure = null;
  }

  /** A typed address wins over the list: who types one means it. */
  get #target(): PairTarget | null {
    const address = this.address.trim();
    if (address !== '') return { kind: 'address', at: address };
    return this.chosen === null ? null : { kind: 'seen', at: this.chosen };
  }

  /** Pairs; resolves to the device, or to null where it did not come to that. */
  async join(): Promise<DeviceView | null> {
    if (this.busy) return null;
    const target = this.#target;
    this.#forget();
    if (target === null || !this.isComplete) {
      this.problem = target === null ? t.pairing.needTarget : t.pairing.needCode;
      return null;
    }
    this.busy = true;
    try {
      const device = await this.#backend.join(target, this.digits);
      this.digits = '';
      this.address = '';
      this.#chosen = null;
      announcer.say(t.pairing.done(device.name));
      return device;
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
      this.failure = failureOf(thrown);
      // Where nobody answered the digits may be right, and are asked with again.
      if (this.failure !== 'no_answer') this.digits = '';
      return null;
    } finally {
      this.busy = false;
    }
  }
}

/** `who` shows the code; it is shown here; it is typed here; paired, and what that may mean; what the other says. */
export type Step = 'who' | 'show' | 'type' | 'paired' | 'confirm';

/** Where adding a device is. It lasts longer than the dialog: what was typed is there when it is opened again. */
export class Pairing {
  isOpen = $state(false);
  step = $state<Step>('who');
  /** Name of the computer that was chosen; null while it may be any. */
  name = $state<string | null>(null);
  /** The last code that was shown, to say why it is gone. */
  last = $state.raw<PairingView | null>(null);
  readonly showing: ShowCode;
  readonly typing: TypeCode;
  /** Id of the device that was paired; null before. */
  peerId = $state<string | null>(null);
  /** How often a device had paired by a code of this computer. */
  #before = 0;

  /** `seen`: the unpaired devices in reach. */
  constructor(backend: Backend, seen: () => readonly DeviceView[]) {
    this.showing = new ShowCode(backend);
    this.typing = new TypeCode(backend, seen);
  }

  /** Opens the dialog: for a computer that was seen, or for any. A code that is still good is shown again. */
  begin(house: HouseholdView, device: DeviceView | null): void {
    this.#before = house.paired_by_code?.times ?? 0;
    this.peerId = null;
    this.last = house.pairing;
    this.name = device?.name ?? null;
    this.showing.problem = null;
    if (device !== null) this.typing.choose(device.id);
    this.step = device?.pairing === true ? 'type' : house.pairing !== null && device === null ? 'show' : 'who';
    this.isOpen = true;
  }

  /** What the household says meanwhile: the code, and who came by it. */
  hear(house: HouseholdView): void {
    if (!this.isOpen) return;
    if (house.pairing !== null) this.last = house.pairing;
    if (this.step !== 'show') return;
    const paired = house.paired_by_code;
    if (paired === null || paired.times <= this.#before) return;
    // One that was paired before, and forgot that, is in the list all the while.
    const came = house.devices.find(({ id }) => id === paired.device);
    if (came !== undefined) this.#paired(came);
  }

  async show(): Promise<void> {
    if (await this.showing.show()) this.step = 'show';
  }

  /** Another code in place of the one that is shown. */
  async renew(): Promise<void> {
    if (await this.showing.hide()) await this.showing.show();
  }

  async withdraw(): Promise<void> {
    if (!(await this.showing.hide())) return;
    this.last = null;
    this.step = 'who';
  }

  async join(): Promise<void> {
    const device = await this.typing.join();
    if (device !== null) this.#paired(device);
  }

  #paired({ id, name }: DeviceView): void {
    this.peerId = id;
    this.name = name;
    this.last = null;
    this.step = 'paired';
  }
}
