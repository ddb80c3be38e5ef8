/** An on/off switch: what it is to assistive technology, and what keys and clicks do to it. */

export interface SwitchOptions {
  /** How it stands. */
  on: boolean;
  /** What the person wants it to be. */
  wish: (on: boolean) => void;
  /** While a wish is under way the switch takes no other. */
  busy: boolean;
}

export class Switch {
  readonly #options: () => SwitchOptions;

  /** Takes a function, so that the attributes follow the values. */
  constructor(options: () => SwitchOptions) {
    this.#options = options;
  }

  readonly attributes = $derived.by(() => {
    const { on, busy } = this.#options();
    return {
      type: 'button' as const,
      role: 'switch' as const,
      'aria-checked': on,
      // Not `disabled`: the focus must stay where the person left it.
      'aria-busy': busy,
      'data-state': on ? 'on' : 'off',
      onclick: () => {
        if (!busy) this.#options().wish(!on);
      },
    };
  });
}
