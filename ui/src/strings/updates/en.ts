/** What the settings say about new versions of the program, in English. */
import type { UpdateWay } from '../../generated/UpdateWay';

export const updates = {
  title: 'New versions',
  choice: 'When there is a new version',
  choices: { off: 'Look only when I ask', tell: 'Tell me', install: 'Install it when nothing is going on' },
  hint: 'Once a day this computer asks one server for the signed list of versions. Nothing about you goes along.',
  nowhere: (version: string) => `This is version ${version}. It knows no place to ask for newer ones: get them from where you got this one.`,
  never: (version: string) => `This is version ${version}. Nobody has looked for a newer one yet.`,
  newest: (version: string, when: string) => `This is version ${version}, the newest one. Looked ${when}.`,
  looking: 'Looking for a new version…',
  there: (version: string, here: string) => `Version ${version} is there. This is ${here}.`,
  mark: (version: string) => `version ${version} is there`,
  look: 'Look now',
  install: (size: string) => `Install it now (${size})`,
  installText: 'Replies that run are finished first. Then Inglenook starts anew; chats, settings and paired devices stay.',
  from: (device: string) => `${device} has it already, so it comes from there.`,
  installing: 'The new version is being loaded and checked. Inglenook starts anew by itself once no reply runs.',
  ways: {
    apt: (file: string) => `To install it, download ${file} from where you got Inglenook, and run: sudo apt install ./${file}`,
    dnf: (file: string) => `To install it, download ${file} from where you got Inglenook, and run: sudo dnf install ./${file}`,
    open: (file: string) => `To install it, download ${file} from where you got Inglenook, and open it.`,
    unpack: (file: string) => `To install it, download ${file} from where you got Inglenook, unpack it into another folder, and drop the old folder on the Update.cmd there.`,
    build: () => 'This Inglenook was built on this computer: take the new source and build it.',
  } satisfies Record<Exclude<UpdateWay, 'itself'>, (file: string) => string>,
  notLooked: (reason: string) => `The last look for a new version did not work: ${reason}`,
  takenBack: (version: string) => `Version ${version} was installed and did not start, so this one was put back. It is not installed by itself again.`,
  notInstalled: (reason: string) => `The new version was not installed, and this one stays: ${reason}`,
};
