/** What the settings say about new versions of the program, in German. */
import type { Strings } from '../index';

export const updates: Strings['updates'] = {
  title: 'Neue Fassungen',
  choice: 'Wenn es eine neue Fassung gibt',
  choices: { off: 'Nur nachsehen, wenn ich frage', tell: 'Sag es mir', install: 'Einspielen, wenn nichts los ist' },
  hint: 'Einmal am Tag fragt dieser Computer einen Server nach der signierten Liste der Fassungen. Über dich wird nichts mitgeschickt.',
  nowhere: (version) => `Dies ist Fassung ${version}. Sie kennt keinen Ort, um nach neueren zu fragen: Hole sie dort, woher du diese hast.`,
  never: (version) => `Dies ist Fassung ${version}. Nach einer neueren hat noch niemand gesehen.`,
  newest: (version, when) => `Dies ist Fassung ${version}, die neueste. Nachgesehen: ${when}.`,
  looking: 'Es wird nach einer neuen Fassung gesehen…',
  there: (version, here) => `Fassung ${version} ist da. Dies ist ${here}.`,
  mark: (version) => `Fassung ${version} ist da`,
  look: 'Jetzt nachsehen',
  install: (size) => `Jetzt einspielen (${size})`,
  installText: 'Laufende Antworten werden vorher fertig. Dann startet Inglenook neu; Gespräche, Einstellungen und gekoppelte Geräte bleiben.',
  from: (device) => `${device} hat sie schon, darum kommt sie von dort.`,
  installing: 'Die neue Fassung wird geladen und geprüft. Inglenook startet von selbst neu, sobald keine Antwort läuft.',
  ways: {
    apt: (file) => `Zum Einspielen lade ${file} dort herunter, woher du Inglenook hast, und gib ein: sudo apt install ./${file}`,
    dnf: (file) => `Zum Einspielen lade ${file} dort herunter, woher du Inglenook hast, und gib ein: sudo dnf install ./${file}`,
    open: (file) => `Zum Einspielen lade ${file} dort herunter, woher du Inglenook hast, und öffne die Datei.`,
    unpack: (file) => `Zum Einspielen lade ${file} dort herunter, woher du Inglenook hast, entpacke die Datei in einen anderen Ordner und ziehe den alten Ordner dort auf Update.cmd.`,
    build: () => 'Dieses Inglenook wurde auf diesem Computer gebaut: Hole den neuen Quelltext und baue ihn.',
  },
  notLooked: (reason) => `Das letzte Nachsehen nach einer neuen Fassung ging nicht: ${reason}`,
  takenBack: (version) => `Fassung ${version} war eingespielt und startete nicht; darum ist diese hier wieder da. Von selbst wird sie nicht noch einmal eingespielt.`,
  notInstalled: (reason) => `Die neue Fassung wurde nicht eingespielt, diese hier bleibt: ${reason}`,
};
