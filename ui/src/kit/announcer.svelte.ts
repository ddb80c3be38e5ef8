/** One polite voice for the whole window: what it is told is read out once, after what is being read. */

class Announcer {
  text = $state('');

  /** Says `sentence`. The same sentence twice is said twice. */
  say(sentence: string): void {
    // A live region speaks on change only; the trailing no-break space makes a repetition a change.
    this.text = this.text === sentence ? `${sentence}\u00a0` : sentence;
  }
}

export const announcer = new Announcer();
