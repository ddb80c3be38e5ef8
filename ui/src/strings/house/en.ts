/**
 * What the house says of itself, in English: what is not well, what the checks found, why a device is
 * left out, and why something was refused. What a system usually refuses has words (`reasons`); else a
 * `reason` is a library's, and in English in every language.
 */
import type { Condition } from '../../generated/Condition';
import type { DeviceTrouble } from '../../generated/DeviceTrouble';
import type { GpuUseView } from '../../generated/GpuUseView';
import type { KeyPlace } from '../../generated/KeyPlace';
import type { SystemReason } from '../../generated/SystemReason';
import type { ToUpdate } from '../../generated/ToUpdate';
import type { Trouble } from '../../generated/Trouble';
import type { UnusedReason } from '../../generated/UnusedReason';
import type { WhyLeftOut } from '../../generated/WhyLeftOut';
import type { WhyNoHelp } from '../../generated/WhyNoHelp';
import type { WrongResult } from '../../generated/WrongResult';

type Kinds<Fact extends { kind: string }, Apart extends string = never> = Record<Exclude<Fact['kind'], Apart>, unknown>;

export const house = {
  troubles: {
    model_switched_off: (model: string, ends: string, minutes: string, reason: string) =>
      `${model} is tried again after ${minutes} min: the part that computes it ended ${ends} times within a minute (${reason}).`,
    model_file_gone: (model: string, file: string) => `${model} cannot be used: the file ${file} is gone. Add it again.`,
    models_folder_away: (folder: string, models: number) =>
      `The models are looked for in ${folder}, which is not there (${models === 1 ? 'one model' : `${models} models`}). Plug in its disk, or choose another folder under Models. Nothing was deleted.`,
    model_file_changed: (model: string, file: string) => `${model} cannot be used: the file ${file} has changed. Add it again.`,
    model_file_being_read: (model: string, file: string) =>
      `${model} cannot be used yet: its file ${file} may have changed, so all of it is read first.`,
    model_unreadable: (model: string, reason: string) => `${model} cannot be used: ${reason}`,
    settings_broken: (file: string, line: string, column: string, reason: string) =>
      `${file} cannot be understood at line ${line}, column ${column}: ${reason} Correct it there; until then nothing is saved.`,
    setting_unfit: (setting: string, value: string, reason: string) =>
      `The setting ${setting} cannot be “${value}”. It takes: ${reason}`,
    settings_unusable: (reason: string) => `The settings file cannot be used: ${reason}`,
    devices_not_saved: (reason: string) => `The list of paired devices could not be saved: ${reason}`,
    download_server: (reason: string) => `The server for downloads cannot be used, so the usual one is: ${reason}`,
    port_taken: (address: string, reason: string) =>
      `The port ${address} cannot be opened (${reason}). Close the program that uses it, or set another one under [port] address in settings.toml.`,
    port_shared: (address: string) =>
      `Another program has ${address}. Programs that are told to use localhost may reach it in place of Inglenook, and show it the key and what you write. Close it, or give your programs the address that stands here.`,
    port_not_local: (address: string) =>
      `${address} is not an address of this computer alone. Set 127.0.0.1 under [port] address in settings.toml.`,
    discovery_unheard:
      'This network or a firewall keeps devices from finding each other. Paired devices and typed addresses still work; allow UDP port 5353 to find new ones.',
    discovery_refused: (reason: string) => `Devices cannot be looked for: ${reason}`,
    copy_seen:
      'Something in this network says that it is this computer. If you copied Inglenook’s data folder to another computer, set Inglenook up anew there; else there is nothing to do.',
    part_ended: (part: string) =>
      `A part of Inglenook ended because of a mistake in the program (${part}). The rest goes on; if something does not work, quit Inglenook and start it again.`,
  } satisfies Kinds<Trouble, 'device'>,

  deviceTroubles: {
    twice: (device: string, kept: string, refused: string) =>
      `Two computers present themselves as ${device} (${kept} and ${refused}): one was copied from the other. Remove Inglenook’s data folder on the copy.`,
    forgot: (device: string) => `${device} does not know this device any more. Pair them again.`,
    other_version: (device: string) =>
      `${device} runs a version of Inglenook that this one does not understand. Update the older one.`,
    outdated: (device: string, update: ToUpdate, there: string, here: string) =>
      `${device} and this computer run versions of Inglenook that do not understand each other (protocol ${there} there, ${here} here). Update Inglenook on ${update === 'this' ? 'this computer' : device}.`,
    suspect: (device: string, wrong: string) =>
      `${device} sent back a result that cannot be right (${wrong}). It was not used. If it happens again, check the memory and the graphics driver there.`,
    computes_otherwise: (device: string, model: string) =>
      `${device} computes ${model} otherwise than this computer and is not used for it. Update Inglenook on both; if that does not help, add the model there anew, and check the memory and the graphics driver.`,
    left_out: (device: string, minutes: number) =>
      `${device} failed repeatedly and is left out of replies for ${minutes === 1 ? 'one more minute' : `${minutes} more minutes`}.`,
  } satisfies Kinds<DeviceTrouble>,

  wrong: {
    other_positions: 'it answers something that was not asked',
    other_shape: 'it has another shape than agreed',
    not_finite: 'it holds what is no number',
    zero_row: 'a part of it is all zero',
    copy: 'a part of it is what was sent, unchanged',
    much_larger: 'its numbers are much larger than these layers make them',
    much_smaller: 'its numbers are much smaller than these layers make them',
    contradicted_here: 'this computer came to other numbers',
    contradicted_elsewhere: 'another device came to other numbers; one of the two is wrong',
    no_such_token: 'it chose a token that the model does not have',
    out_of_turn: 'it answered out of turn',
    unreadable: 'it cannot be read',
  } satisfies Record<WrongResult, string>,
  wrongMore: (wrong: string, reason: string) => `${wrong}: ${reason}`,

  ways: {
    name: 'Connected over',
    over: {
      cable: (address: string) => `a cable, to ${address}`,
      wifi: (address: string) => `Wi-Fi, to ${address}`,
      other: (address: string) => `a VPN or the like, to ${address}`,
      unknown: (address: string) => address,
    },
    onCable: 'On a cable',
    gained: (now: string, then: string) => `the last reply: ${now} → ${then} words per second`,
    rate: (over: string, amount: string) => `${over}; up to ${amount} per second`,
  },
  found: {
    identity: (name: string, id: string, key: string) => `${name} (${id}), key kept in ${key}.`,
    listening: (port: string, connected: number) =>
      `Listening on port ${port}; ${connected === 1 ? 'one device' : `${connected} devices`} connected.`,
    discovery_works: (seen: number) => `Multicast works; ${seen === 1 ? 'one device' : `${seen} devices`} seen.`,
    discovery_uncertain: 'This computer has not heard its own advert yet. Look again in ten seconds.',
    discovery_absent: 'Devices cannot be looked for on this computer. Typed addresses work.',
    port_open: (address: string) => `Open at ${address}`,
    port_closed: 'Not open.',
    device_away: (device: string) =>
      `${device} does not answer. If it is on: is it on the same network, and does its firewall allow Inglenook?`,
    device_connected: (device: string, roundTrip: string, mayCompute: boolean, mayUse: boolean) =>
      `${device}: round trip ${roundTrip}. It ${mayCompute ? 'may' : 'may not'} compute for this computer, and ${mayUse ? 'may' : 'may not'} use what is shared here.`,
    cable_unused: (device: string, address: string) =>
      `${device} is connected over Wi-Fi, although this computer has a cable to ${address}. Inglenook measures that way every ten minutes and takes it once it is faster. If it does not: does the firewall on ${device} allow Inglenook on that network?`,
    models: (count: number) => (count === 0 ? 'None. Add one under Models.' : count === 1 ? 'One here.' : `${count} here.`),
    disk_room: (free: string) => `${free} are free.`,
    computes: (backend: string, now: string) => {
      const named = backend === 'native' ? 'Models are computed on the processor.' : `Models are computed on ${backend}, as it was chosen.`;
      const chosen = backend === 'auto' ? 'Models are computed on what was measured to be faster.' : named;
      return now === '' ? chosen : `${chosen} Now on: ${now}.`;
    },
    gpu: (gpu: string, used: string) => `Graphics card ${gpu}: ${used}`,
    cards_unused: (cards: string) =>
      `${cards} is there and not used: its driver offers no Vulkan. Install the whole driver.`,
  } satisfies Kinds<Condition, 'trouble'>,
  cards: {
    title: 'Graphics card',
    use: 'Use the graphics card',
    uses: {
      auto: 'Automatically',
      gpu: 'Always',
      native: 'Never',
    },
    only: (card: string) => `Only ${card}`,
    named: (backend: string) => `As set in the file: ${backend}`,
    hint: 'Automatically: this computer measures the processor and the graphics card while it has nothing else to do, and takes what answers at least a fifth sooner. A reply that runs goes on where it began. Checks says what was found.',
  },
  gpuHolds: (layers: number, of: number, own: string, lent: string) =>
    layers < of
      ? `${layers} of ${of} layers lie there now: ${own} for this computer’s own replies, ${lent} for others. The processor computes the other layers.`
      : `${layers} layers lie there now: ${own} for this computer’s own replies, ${lent} for others.`,
  gpuUse: {
    chosen: 'used, as it was chosen.',
    not_chosen: 'not used, because something else was chosen.',
    software: 'not used: the processor plays graphics card. Only if it is named.',
    unmeasured: 'not used yet. It is measured after a model was used, when nothing else goes on.',
    measured: (isUsed: boolean, cpu: string, gpu: string) =>
      `${isUsed ? 'used' : 'not used'}; measured: processor ${cpu}, card ${gpu} tokens a second of a usual reply.`,
    on_battery: 'not used while this computer runs on its battery. “Always” uses it there too.',
    used_by_others: 'not used while another program uses it. “Always” uses it all the same.',
    resting: (minutes: number, reason: string) =>
      `not used for ${minutes === 1 ? 'one minute' : `${minutes} minutes`}, because it failed: ${reason}`,
    unfit: (reason: string) => `not used for the model that was tried last: ${reason}`,
  } satisfies Kinds<GpuUseView>,
  help: {
    question: (name: string) => `May this computer and ${name} help each other?`,
    text: (name: string) =>
      `Then each may compute for the other, and sharing is switched on here. The owner of a helping computer who wants to can read everything you and the model write, word for word. ${name} asks the same on its screen.`,
    eachOther: 'Help each other',
    onlyThis: 'Only this one helps',
    nothing: 'Nothing yet',
    answered: (name: string) => `Your answer about ${name} is kept. You can change it at its card.`,
    theirs: (name: string) => `${name} has not answered yet.`,
  },
  wake: {
    button: (name: string) => `Wake ${name}`,
    waking: 'Waking it up. Inglenook waits for up to three minutes.',
    took: (seconds: string) => `The last time, that took ${seconds} s.`,
    title: 'Waking up',
    allow: 'Other computers may wake this one',
    allowHint: 'When this computer sleeps, computers that you trust in the same network may wake it. They are told the address of its network card for that (Wake-on-LAN). It must be switched on in the computer’s firmware as well.',
    helpers: 'This computer may wake helpers by itself',
    helpersHint: 'A reply that this computer cannot make alone wakes the computers that sleep, where their owners let it, and waits for them.',
  },
  reasons: {
    no_room: 'the disk is full',
    not_allowed: 'this user may not do that there',
    not_there: 'there is no such file or folder',
    read_only: 'the disk can only be read',
    timed_out: 'nothing came in time',
    refused: 'nobody takes connections there',
    unreachable: 'no way leads there',
    broken: 'the connection broke',
    in_use: 'another program uses the address',
  } satisfies Record<SystemReason, string>,
  reasonSaid: (words: string, said: string) => `${words}; the system says: ${said}`,

  notMeasured: 'not measured yet',

  keyPlaces: {
    keychain: 'the system’s keychain',
    file: (path: string) => `the file ${path}`,
  } satisfies Kinds<KeyPlace>,

  unused: {
    not_paired: 'It is not paired with this computer.',
    blocked: 'You have blocked it.',
    away: 'It does not answer: it is off, asleep, or on another network.',
    not_allowed: 'You have not allowed it to compute for you: set it to Trusted.',
    unanswered: 'Say whether these two computers may help each other: the question is above.',
    only_helped: 'You chose that this computer helps it, and not the other way round.',
    unanswered_there: 'The same question waits on its screen: may these two computers help each other?',
    not_allowed_there: 'Its owner does not let this computer use it. Set this computer to Trusted there.',
    sharing_off: 'Sharing is switched off there. Switch it on there.',
    sharing_paused: 'Sharing pauses there: on battery, in a full-screen game, or because its owner said so.',
    not_sharing: 'It shares nothing with this computer now.',
    no_model: 'It has none of the models that this computer uses, and may fetch none: allow that there, under Settings, Sharing.',
    lacks_layers: 'It has no part of your model yet. It gets one by itself as soon as that is of use.',
    fetching: 'It is getting its part of your model.',
    disk_full: 'Its disk has no room for its part of your model. Make some there.',
    fetch_limit: 'It may not fetch its part of your model, or no more of it. Allow it there, under Settings, Sharing.',
    fetch_failed: 'It could not get its part of your model. It is tried again; this computer must let it copy models.',
    bad_model: 'What it was sent of your model is damaged, or it cannot use the model. Add the model again here, then start Inglenook again there.',
    busy: 'It is busy with other replies.',
    left_out: 'The last reply did without it.',
  } satisfies Record<UnusedReason, string>,
  fetched: (percent: string) => `It is getting its part of your model: ${percent} %.`,

  predictedBoth: (together: string, alone: string) => `Predicted beforehand: ${together} words/s together, ${alone} words/s on this computer alone.`,
  predictedTogether: (together: string) => `Predicted beforehand: ${together} words/s together. This computer cannot hold the model alone.`,
  predictedAlone: (alone: string) => `Predicted beforehand: ${alone} words/s on this computer alone. No other computer could help.`,

  leftOut: {
    absent: 'It is not connected.',
    not_sharing: 'Sharing is switched off there.',
    not_allowed: 'Its trust level does not allow it to help.',
    leaving: 'It is pausing or leaving.',
    other_file: 'It does not have this model’s exact file.',
    lacks_layers: 'It has no part of this model yet; it gets one by itself when that is of use.',
    refused: 'It refused, and nothing has changed there since.',
    failed_lately: 'It failed a moment ago and is left alone for a while.',
    computes_wrongly: 'It computes the model otherwise than this computer.',
    nothing_to_compute: 'It offers no layer of this model.',
    full: (needs: string, free: string) =>
      `Its memory is full: one layer with this conversation needs ${needs}, ${free} are free.`,
    streams_taken: 'It already helps as many conversations as it allows.',
    does_not_fit_in: 'Its layers cannot be joined with those of the other devices.',
    too_slow: (slower: string) => `It is too slow: the reply would take ${slower} longer.`,
    hop_costs_more_than_it_saves: (hop: string, saves: string) =>
      `The way to it costs ${hop} a reply, and its computing saves ${saves}.`,
    loading_takes_too_long: (load: string, saves: string) =>
      `Loading its layers takes ${load} and would save ${saves} on this reply.`,
    unknown_speed: 'Its speed has not been measured yet, and the others suffice.',
    gain_is_too_small: (saves: string) => `It would save only ${saves} on this reply.`,
    others_are_better: 'The devices in use do it faster.',
  } satisfies Kinds<WhyLeftOut>,

  noRoom: {
    needs: (model: string, needs: string, free: string) => `${model} needs ${needs} of memory for this reply, and this computer has ${free} for it.`,
    onlyEnds: (model: string) => `Only this computer’s part of ${model} is here, and other devices compute the rest.`,
    onlyHere: 'Let other devices help with this chat, or choose a smaller model.',
    nobody: 'Pair another computer that helps, or choose a smaller model.',
    divided: (reasons: string) => `It cannot be divided now: ${reasons}.`,
    why: {
      absent: (device: string) => `${device} is not connected: start it`,
      not_sharing: (device: string) => `${device} does not share: switch sharing on there`,
      not_allowed: (device: string) => `${device} may not help: raise its trust level`,
      leaving: (device: string) => `${device} is pausing or leaving`,
      other_file: (device: string) => `${device} does not have this model, and may not get it`,
      lacks_layers: (device: string) => `${device} is about to get its part of the model: ask again in a moment`,
      refused: (device: string) => `${device} refused a moment ago`,
      failed_lately: (device: string) => `${device} failed a moment ago`,
      computes_wrongly: (device: string) => `${device} computes this model wrongly`,
      too_little: (device: string) => `${device} does not lend enough for the rest`,
    } satisfies Record<WhyNoHelp, unknown>,
    endsOnTheirWay: (model: string) => `This computer’s part of ${model} is still on its way. Models shows how far it is.`,
    deviceGone: (device: string) => `${device} computed a part of this reply and is gone, and no other device can take over. What was said is kept: press Continue when ${device} is back.`,
  },

  refusals: {
    mayNotWake: (device: string) =>
      `${device} has not said how it can be woken. Its owner allows that there, under Settings, Sharing, while both computers are on and in one network.`,
    wakeOtherNetwork: (device: string) => `${device} cannot be woken from here: this computer is in another network.`,
    wakeRefused: (device: string, reason: string) => `${device} could not be called: ${reason}`,
    notWoken: (device: string) =>
      `${device} was called for three minutes and is not there. It may be switched off at the wall, or have Wake-on-LAN switched off in its firmware.`,
    notSixDigits: 'A pairing code has six digits.',
    sameDevice: 'That is this same computer, or a copy of it.',
    notKeptHere: 'The code was right, but the other device could not be saved on this computer.',
    notKeptThere: 'The code was right, but the other device could not save this one.',
    pairingOdd: 'The other device does not pair as Inglenook does. Update it, then try again.',
    noAddress: (typed: string) =>
      `“${typed}” is not an address with a port, as shown beside the code: 192.168.1.20:40123.`,
    nameNotFound: (typed: string) =>
      `No computer was found under “${typed}”. Type its address in numbers, as shown beside the code: 192.168.1.20:40123.`,
    noPairingPort: 'No port could be opened for pairing.',
    notStarted: (reason: string) => `The reason: ${reason}`,
    alreadyRuns: (folder: string) => `Inglenook already runs with the data folder ${folder}.`,
    noFile: (file: string) => `There is no file ${file}.`,
    fileChanges: (file: string) => `${file} changed while it was read. Wait until it is complete, then try again.`,
    noModel: (file: string, reason: string) => `${file} is no model that can be used: ${reason}`,
    nameTaken: (name: string) => `Another model is called “${name}”.`,
    modelUnusable: (model: string) => `The file of ${model} is missing or damaged. Add it again.`,
    noSearch: 'Write a few words to search for, or a repository as owner/repository.',
    noChat: 'This is no chat that Inglenook saved as JSON.',
    chatTooLarge: 'This file is too large to be a chat of Inglenook.',
    chatOfLaterVersion: 'A later version of Inglenook saved this chat. Update this computer.',
    chatGone: 'This conversation does not exist any more.',
    messageGone: 'This message does not exist any more.',
    folderGone: 'This folder does not exist any more.',
    chatsUnusable: (reason: string) => `The conversations cannot be read or kept: ${reason}`,
    diskFull: 'The disk is full. Free some space, then try again.',
    loginStart: (reason: string) => `The start at login cannot be changed here: ${reason}`,
    noBrowser: (reason: string) => `No browser could be started: ${reason}`,
    notSaved: (reason: string) => `The file could not be saved: ${reason}`,
    portSilent: 'Nothing answers there.',
    portForeign: 'Something else than Inglenook answers there.',
  },
};
