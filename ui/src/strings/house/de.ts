/** What the house says of itself, in German. */
import type { Strings } from '../index';

export const house: Strings['house'] = {
  troubles: {
    model_switched_off: (model, ends, minutes, reason) =>
      `${model} wird nach ${minutes} min wieder versucht: Der Teil, der es berechnet, endete ${ends}-mal innerhalb einer Minute (${reason}).`,
    model_file_gone: (model, file) => `${model} kann nicht benutzt werden: Die Datei ${file} ist nicht mehr da. Füge sie wieder hinzu.`,
    models_folder_away: (folder, models) =>
      `Die Modelle werden in ${folder} gesucht, und der Ordner ist nicht da (${models === 1 ? 'ein Modell' : `${models} Modelle`}). Schließe seinen Datenträger an, oder wähle unter Modelle einen anderen Ordner. Gelöscht wurde nichts.`,
    model_file_changed: (model, file) => `${model} kann nicht benutzt werden: Die Datei ${file} hat sich geändert. Füge sie neu hinzu.`,
    model_file_being_read: (model, file) =>
      `${model} kann noch nicht benutzt werden: Die Datei ${file} hat sich vielleicht geändert und wird erst ganz gelesen.`,
    model_unreadable: (model, reason) => `${model} kann nicht benutzt werden: ${reason}`,
    settings_broken: (file, line, column, reason) =>
      `${file} ist in Zeile ${line}, Spalte ${column} nicht zu verstehen: ${reason} Berichtige das dort; bis dahin wird nichts gespeichert.`,
    setting_unfit: (setting, value, reason) => `Die Einstellung ${setting} kann nicht „${value}“ sein. Möglich ist: ${reason}`,
    settings_unusable: (reason) => `Die Datei der Einstellungen kann nicht benutzt werden: ${reason}`,
    devices_not_saved: (reason) => `Die Liste der gekoppelten Geräte konnte nicht gespeichert werden: ${reason}`,
    download_server: (reason) => `Der Server zum Herunterladen kann nicht benutzt werden; es gilt der übliche: ${reason}`,
    port_taken: (address, reason) =>
      `Der Anschluss ${address} kann nicht geöffnet werden (${reason}). Beende das Programm, das ihn benutzt, oder stelle in settings.toml unter [port] address einen anderen ein.`,
    port_shared: (address) =>
      `Ein anderes Programm hat ${address}. Programme, die localhost benutzen sollen, erreichen vielleicht dieses statt Inglenook, und zeigen ihm den Schlüssel und was du schreibst. Beende es, oder gib deinen Programmen die Adresse, die hier steht.`,
    port_not_local: (address) =>
      `${address} ist keine Adresse dieses Computers allein. Stelle in settings.toml unter [port] address 127.0.0.1 ein.`,
    discovery_unheard:
      'Dieses Netz oder eine Firewall hindert Geräte daran, einander zu finden. Gekoppelte Geräte und eingetippte Adressen gehen trotzdem; erlaube den UDP-Port 5353, um neue zu finden.',
    discovery_refused: (reason) => `Nach Geräten kann nicht gesucht werden: ${reason}`,
    copy_seen:
      'Etwas in diesem Netz gibt sich als dieser Computer aus. Wenn du den Datenordner von Inglenook auf einen anderen Computer kopiert hast, richte Inglenook dort neu ein; sonst ist nichts zu tun.',
    part_ended: (part) =>
      `Ein Teil von Inglenook hat wegen eines Fehlers im Programm aufgehört (${part}). Alles andere läuft weiter; wenn etwas nicht geht, beende Inglenook und starte es neu.`,
  },

  deviceTroubles: {
    twice: (device, kept, refused) =>
      `Zwei Computer geben sich als ${device} aus (${kept} und ${refused}): Einer ist eine Kopie des anderen. Entferne auf der Kopie den Datenordner von Inglenook.`,
    forgot: (device) => `${device} kennt dieses Gerät nicht mehr. Kopple die beiden neu.`,
    other_version: (device) => `${device} hat eine Fassung von Inglenook, die diese hier nicht versteht. Aktualisiere die ältere.`,
    outdated: (device, update, there, here) =>
      `${device} und dieser Computer haben Fassungen von Inglenook, die einander nicht verstehen (Protokoll ${there} dort, ${here} hier). Aktualisiere Inglenook auf ${update === 'this' ? 'diesem Computer' : device}.`,
    suspect: (device, wrong) =>
      `${device} hat ein Ergebnis geschickt, das nicht stimmen kann (${wrong}). Es wurde nicht benutzt. Kommt das wieder vor, dann prüfe dort Arbeitsspeicher und Grafiktreiber.`,
    computes_otherwise: (device, model) =>
      `${device} berechnet ${model} anders als dieser Computer und wird dafür nicht benutzt. Aktualisiere Inglenook auf beiden; hilft das nicht, dann füge das Modell dort neu hinzu, und prüfe Arbeitsspeicher und Grafiktreiber.`,
    left_out: (device, minutes) =>
      `${device} ist mehrmals ausgefallen und wird noch ${minutes === 1 ? 'eine Minute' : `${minutes} Minuten`} nicht benutzt.`,
  },

  wrong: {
    other_positions: 'es beantwortet etwas, das nicht gefragt war',
    other_shape: 'es hat eine andere Form als vereinbart',
    not_finite: 'es enthält etwas, das keine Zahl ist',
    zero_row: 'ein Teil davon besteht nur aus Nullen',
    copy: 'ein Teil davon ist unverändert, was geschickt wurde',
    much_larger: 'seine Zahlen sind viel größer, als diese Schichten sie machen',
    much_smaller: 'seine Zahlen sind viel kleiner, als diese Schichten sie machen',
    contradicted_here: 'dieser Computer kam auf andere Zahlen',
    contradicted_elsewhere: 'ein anderes Gerät kam auf andere Zahlen; eines von beiden irrt',
    no_such_token: 'es hat ein Token gewählt, das es in dem Modell nicht gibt',
    out_of_turn: 'es hat geantwortet, ohne an der Reihe zu sein',
    unreadable: 'es ist nicht zu lesen',
  },
  wrongMore: (wrong, reason) => `${wrong}: ${reason}`,

  ways: {
    name: 'Verbunden über',
    over: {
      cable: (address) => `ein Kabel, mit ${address}`,
      wifi: (address) => `WLAN, mit ${address}`,
      other: (address) => `ein VPN oder Ähnliches, mit ${address}`,
      unknown: (address) => address,
    },
    onCable: 'Am Kabel',
    gained: (now, then) => `die letzte Antwort: ${now} → ${then} Wörter in der Sekunde`,
    rate: (over, amount) => `${over}; bis zu ${amount} in der Sekunde`,
  },
  found: {
    identity: (name, id, key) => `${name} (${id}), der Schlüssel liegt in ${key}.`,
    listening: (port, connected) =>
      `Erreichbar über Port ${port}; ${connected === 1 ? 'ein Gerät ist' : `${connected} Geräte sind`} verbunden.`,
    discovery_works: (seen) => `Multicast funktioniert; ${seen === 1 ? 'ein Gerät ist' : `${seen} Geräte sind`} zu sehen.`,
    discovery_uncertain: 'Dieser Computer hat sich selbst noch nicht gehört. Prüfe in zehn Sekunden noch einmal.',
    discovery_absent: 'Auf diesem Computer kann nicht nach Geräten gesucht werden. Eingetippte Adressen gehen.',
    port_open: (address) => `Offen unter ${address}`,
    port_closed: 'Nicht offen.',
    device_away: (device) =>
      `${device} antwortet nicht. Falls es an ist: Ist es im selben Netz, und lässt seine Firewall Inglenook zu?`,
    device_connected: (device, roundTrip, mayCompute, mayUse) =>
      `${device}: Hin und zurück dauert es ${roundTrip}. Es darf ${mayCompute ? '' : 'nicht '}für diesen Computer rechnen und ${mayUse ? '' : 'nicht '}benutzen, was hier geteilt wird.`,
    cable_unused: (device, address) =>
      `${device} ist über WLAN verbunden, obwohl von hier ein Kabel zu ${address} führt. Inglenook misst diesen Weg alle zehn Minuten und nimmt ihn, sobald er schneller ist. Wenn es dabei bleibt: Lässt die Firewall auf ${device} Inglenook in jenem Netz zu?`,
    models: (count) => (count === 0 ? 'Keines. Füge unter Modelle eines hinzu.' : count === 1 ? 'Eines ist hier.' : `${count} sind hier.`),
    disk_room: (free) => `${free} sind frei.`,
    computes: (backend, now) => {
      const named = backend === 'native' ? 'Modelle werden auf dem Prozessor berechnet.' : `Modelle werden auf ${backend} berechnet, wie es gewählt wurde.`;
      const chosen = backend === 'auto' ? 'Modelle werden auf dem berechnet, was sich als schneller erwiesen hat.' : named;
      return now === '' ? chosen : `${chosen} Jetzt auf: ${now}.`;
    },
    gpu: (gpu, used) => `Grafikkarte ${gpu}: ${used}`,
    cards_unused: (cards) =>
      `${cards} ist da und wird nicht benutzt: Ihr Treiber bietet kein Vulkan. Installiere den ganzen Treiber.`,
  },
  cards: {
    title: 'Grafikkarte',
    use: 'Grafikkarte benutzen',
    uses: {
      auto: 'Automatisch',
      gpu: 'Immer',
      native: 'Nie',
    },
    only: (card) => `Nur ${card}`,
    named: (backend) => `Wie in der Datei eingestellt: ${backend}`,
    hint: 'Automatisch: Dieser Computer misst Prozessor und Grafikkarte, während er sonst nichts zu tun hat, und nimmt, was mindestens ein Fünftel früher antwortet. Eine laufende Antwort geht dort weiter, wo sie begann. „Prüfung“ sagt, was gefunden wurde.',
  },
  gpuHolds: (layers, of, own, lent) =>
    layers < of
      ? `${layers} von ${of} Schichten liegen jetzt dort: ${own} für Antworten dieses Computers, ${lent} für andere. Die anderen Schichten berechnet der Prozessor.`
      : `${layers} Schichten liegen jetzt dort: ${own} für Antworten dieses Computers, ${lent} für andere.`,
  gpuUse: {
    chosen: 'benutzt, wie es gewählt wurde.',
    not_chosen: 'nicht benutzt, weil etwas anderes gewählt wurde.',
    software: 'nicht benutzt: Der Prozessor spielt Grafikkarte. Nur, wenn sie genannt wird.',
    unmeasured: 'noch nicht benutzt. Sie wird gemessen, nachdem ein Modell benutzt wurde und wenn sonst nichts zu tun ist.',
    measured: (isUsed, cpu, gpu) =>
      `${isUsed ? 'benutzt' : 'nicht benutzt'}; gemessen: Prozessor ${cpu}, Karte ${gpu} Token in der Sekunde einer üblichen Antwort.`,
    on_battery: 'nicht benutzt, solange dieser Computer am Akku läuft. „Immer“ benutzt sie auch dann.',
    used_by_others: 'nicht benutzt, solange ein anderes Programm sie benutzt. „Immer“ benutzt sie trotzdem.',
    resting: (minutes, reason) =>
      `${minutes === 1 ? 'eine Minute' : `${minutes} Minuten`} lang nicht benutzt, weil sie versagt hat: ${reason}`,
    unfit: (reason) => `nicht benutzt für das zuletzt versuchte Modell: ${reason}`,
  },
  help: {
    question: (name) => `Dürfen dieser Computer und ${name} einander helfen?`,
    text: (name) =>
      `Dann darf jeder für den anderen rechnen, und hier wird das Teilen eingeschaltet. Wem ein helfender Computer gehört, der kann, wenn er will, alles lesen, was du und das Modell schreiben, Wort für Wort. ${name} fragt auf seinem Bildschirm dasselbe.`,
    eachOther: 'Einander helfen',
    onlyThis: 'Nur dieser hilft',
    nothing: 'Noch nichts',
    answered: (name) => `Deine Antwort zu ${name} ist gemerkt. An seiner Karte kannst du sie ändern.`,
    theirs: (name) => `${name} hat noch nicht geantwortet.`,
  },
  wake: {
    button: (name) => `${name} aufwecken`,
    waking: 'Wird aufgeweckt. Inglenook wartet bis zu drei Minuten.',
    took: (seconds) => `Beim letzten Mal hat das ${seconds} s gedauert.`,
    title: 'Aufwecken',
    allow: 'Andere Computer dürfen diesen aufwecken',
    allowHint: 'Wenn dieser Computer schläft, dürfen ihn Computer im selben Netz aufwecken, denen du vertraust. Sie erfahren dafür die Adresse seiner Netzwerkkarte (Wake-on-LAN). In der Firmware des Computers muss es auch eingeschaltet sein.',
    helpers: 'Dieser Computer darf Helfer selbst aufwecken',
    helpersHint: 'Eine Antwort, die dieser Computer allein nicht geben kann, weckt die schlafenden Computer auf, deren Besitzer das erlauben, und wartet auf sie.',
  },
  reasons: {
    no_room: 'der Datenträger ist voll',
    not_allowed: 'dieser Benutzer darf das dort nicht',
    not_there: 'es gibt keine solche Datei und keinen solchen Ordner',
    read_only: 'der Datenträger lässt sich nur lesen',
    timed_out: 'es kam nichts zur rechten Zeit',
    refused: 'niemand nimmt dort Verbindungen an',
    unreachable: 'kein Weg führt dorthin',
    broken: 'die Verbindung riss ab',
    in_use: 'ein anderes Programm benutzt die Adresse',
  },
  reasonSaid: (words, said) => `${words}; das System sagt: ${said}`,

  notMeasured: 'noch nicht gemessen',

  keyPlaces: {
    keychain: 'dem Schlüsselbund des Systems',
    file: (path) => `der Datei ${path}`,
  },

  unused: {
    not_paired: 'Es ist nicht mit diesem Computer gekoppelt.',
    blocked: 'Du hast es gesperrt.',
    away: 'Es antwortet nicht: Es ist aus, schläft oder ist in einem anderen Netz.',
    not_allowed: 'Du hast ihm nicht erlaubt, für dich zu rechnen: Setze es auf Vertraut.',
    unanswered: 'Sag, ob diese beiden Computer einander helfen dürfen: Die Frage steht oben.',
    only_helped: 'Du hast gewählt, dass dieser Computer ihm hilft, und nicht umgekehrt.',
    unanswered_there: 'Dieselbe Frage wartet auf seinem Bildschirm: Dürfen diese beiden Computer einander helfen?',
    not_allowed_there: 'Wer es besitzt, lässt diesen Computer es nicht benutzen. Setze diesen Computer dort auf Vertraut.',
    sharing_off: 'Dort ist das Teilen ausgeschaltet. Schalte es dort ein.',
    sharing_paused: 'Dort pausiert das Teilen: im Akkubetrieb, in einem Spiel im Vollbild, oder weil jemand es so wollte.',
    not_sharing: 'Es teilt jetzt nichts mit diesem Computer.',
    no_model: 'Es hat keines der Modelle, die dieser Computer benutzt, und darf keines holen: Erlaube das dort unter Einstellungen, Teilen.',
    lacks_layers: 'Es hat noch keinen Teil deines Modells. Es holt sich einen von selbst, sobald das nützt.',
    fetching: 'Es holt gerade seinen Teil deines Modells.',
    disk_full: 'Auf seiner Festplatte ist kein Platz für seinen Teil deines Modells. Schaffe dort Platz.',
    fetch_limit: 'Es darf seinen Teil deines Modells nicht holen, oder nicht mehr davon. Erlaube es dort unter Einstellungen, Teilen.',
    fetch_failed: 'Es hat seinen Teil deines Modells nicht bekommen. Es versucht es wieder; dieser Computer muss ihm das Kopieren erlauben.',
    bad_model: 'Was es von deinem Modell bekam, ist beschädigt, oder es kann das Modell nicht benutzen. Füge das Modell hier neu hinzu und starte dort Inglenook neu.',
    busy: 'Es ist mit anderen Antworten beschäftigt.',
    left_out: 'Die letzte Antwort kam ohne es aus.',
  },
  fetched: (percent) => `Es holt gerade seinen Teil deines Modells: ${percent} %.`,

  predictedBoth: (together, alone) => `Vorhergesagt: ${together} Wörter/s zusammen, ${alone} Wörter/s auf diesem Computer allein.`,
  predictedTogether: (together) => `Vorhergesagt: ${together} Wörter/s zusammen. Dieser Computer kann das Modell allein nicht halten.`,
  predictedAlone: (alone) => `Vorhergesagt: ${alone} Wörter/s auf diesem Computer allein. Kein anderer Computer konnte helfen.`,

  leftOut: {
    absent: 'Es ist nicht verbunden.',
    not_sharing: 'Dort ist das Teilen ausgeschaltet.',
    not_allowed: 'Das Vertrauen reicht nicht dafür, dass es hilft.',
    leaving: 'Es pausiert oder geht gerade.',
    other_file: 'Es hat nicht genau die Datei dieses Modells.',
    lacks_layers: 'Es hat noch keinen Teil dieses Modells; es holt sich einen von selbst, wenn das nützt.',
    refused: 'Es hat abgelehnt, und seither hat sich dort nichts geändert.',
    failed_lately: 'Es ist eben ausgefallen und wird eine Weile in Ruhe gelassen.',
    computes_wrongly: 'Es berechnet das Modell anders als dieser Computer.',
    nothing_to_compute: 'Es bietet keine Schicht dieses Modells an.',
    full: (needs, free) => `Sein Speicher ist voll: Eine Schicht braucht mit diesem Gespräch ${needs}, frei sind ${free}.`,
    streams_taken: 'Es hilft schon bei so vielen Gesprächen, wie es darf.',
    does_not_fit_in: 'Seine Schichten lassen sich nicht mit denen der anderen Geräte verbinden.',
    too_slow: (slower) => `Es ist zu langsam: Die Antwort würde ${slower} länger dauern.`,
    hop_costs_more_than_it_saves: (hop, saves) => `Der Weg dorthin kostet je Antwort ${hop}, und sein Rechnen spart ${saves}.`,
    loading_takes_too_long: (load, saves) => `Seine Schichten zu laden dauert ${load} und würde bei dieser Antwort ${saves} sparen.`,
    unknown_speed: 'Seine Geschwindigkeit ist noch nicht gemessen, und die anderen genügen.',
    gain_is_too_small: (saves) => `Es würde bei dieser Antwort nur ${saves} sparen.`,
    others_are_better: 'Die benutzten Geräte sind schneller.',
  },

  noRoom: {
    needs: (model, needs, free) => `${model} braucht für diese Antwort ${needs} Arbeitsspeicher, und dieser Computer hat ${free} dafür.`,
    onlyEnds: (model) => `Von ${model} ist nur der Teil dieses Computers hier, und den Rest berechnen andere Geräte.`,
    onlyHere: 'Lass andere Geräte bei diesem Gespräch helfen, oder wähle ein kleineres Modell.',
    nobody: 'Kopple einen weiteren Computer, der hilft, oder wähle ein kleineres Modell.',
    divided: (reasons) => `Jetzt lässt es sich nicht aufteilen: ${reasons}.`,
    why: {
      absent: (device) => `${device} ist nicht verbunden: starte das Gerät`,
      not_sharing: (device) => `${device} teilt nicht: schalte dort das Teilen ein`,
      not_allowed: (device) => `${device} darf nicht helfen: erhöhe das Vertrauen`,
      leaving: (device) => `${device} pausiert oder geht gerade`,
      other_file: (device) => `${device} hat dieses Modell nicht und darf es nicht holen`,
      lacks_layers: (device) => `${device} holt gleich seinen Teil des Modells: frag gleich noch einmal`,
      refused: (device) => `${device} hat eben abgelehnt`,
      failed_lately: (device) => `${device} ist eben ausgefallen`,
      computes_wrongly: (device) => `${device} berechnet dieses Modell falsch`,
      too_little: (device) => `${device} leiht nicht genug für den Rest`,
    },
    endsOnTheirWay: (model) => `Der Teil dieses Computers von ${model} ist noch unterwegs. Wie weit er ist, steht unter „Modelle“.`,
    deviceGone: (device) => `${device} hat einen Teil dieser Antwort berechnet und ist weg, und kein anderes Gerät kann übernehmen. Was gesagt wurde, bleibt: Drücke „Fortsetzen“, wenn ${device} wieder da ist.`,
  },

  refusals: {
    mayNotWake: (device) =>
      `${device} hat nicht gesagt, wie es aufgeweckt wird. Wer es besitzt, erlaubt das dort unter Einstellungen, Teilen, solange beide Computer an und in einem Netz sind.`,
    wakeOtherNetwork: (device) => `${device} lässt sich von hier nicht aufwecken: Dieser Computer ist in einem anderen Netz.`,
    wakeRefused: (device, reason) => `${device} konnte nicht gerufen werden: ${reason}`,
    notWoken: (device) =>
      `${device} wurde drei Minuten lang gerufen und ist nicht da. Vielleicht ist es vom Strom getrennt, oder Wake-on-LAN ist in seiner Firmware ausgeschaltet.`,
    notSixDigits: 'Ein Kopplungscode hat sechs Ziffern.',
    sameDevice: 'Das ist dieser Computer selbst, oder eine Kopie von ihm.',
    notKeptHere: 'Der Code stimmte, aber das andere Gerät konnte auf diesem Computer nicht gespeichert werden.',
    notKeptThere: 'Der Code stimmte, aber das andere Gerät konnte dieses nicht speichern.',
    pairingOdd: 'Das andere Gerät koppelt nicht so wie Inglenook. Aktualisiere es, und versuche es noch einmal.',
    noAddress: (typed) =>
      `„${typed}“ ist keine Adresse mit Anschlussnummer, wie sie neben dem Code steht: 192.168.1.20:40123.`,
    nameNotFound: (typed) =>
      `Unter „${typed}“ wurde kein Computer gefunden. Gib seine Adresse in Zahlen ein, wie sie neben dem Code steht: 192.168.1.20:40123.`,
    noPairingPort: 'Zum Koppeln konnte kein Port geöffnet werden.',
    notStarted: (reason) => `Der Grund: ${reason}`,
    alreadyRuns: (folder) => `Inglenook läuft schon mit dem Datenordner ${folder}.`,
    noFile: (file) => `Es gibt keine Datei ${file}.`,
    fileChanges: (file) => `${file} hat sich beim Lesen geändert. Warte, bis die Datei vollständig ist, und versuche es noch einmal.`,
    noModel: (file, reason) => `${file} ist kein Modell, das benutzt werden kann: ${reason}`,
    nameTaken: (name) => `Ein anderes Modell heißt „${name}“.`,
    modelUnusable: (model) => `Die Datei von ${model} fehlt oder ist beschädigt. Füge sie neu hinzu.`,
    noSearch: 'Schreib ein paar Wörter, nach denen gesucht wird, oder eine Ablage als besitzer/ablage.',
    noChat: 'Das ist kein Gespräch, das Inglenook als JSON gespeichert hat.',
    chatTooLarge: 'Diese Datei ist zu groß für ein Gespräch von Inglenook.',
    chatOfLaterVersion: 'Eine neuere Fassung von Inglenook hat dieses Gespräch gespeichert. Aktualisiere diesen Computer.',
    chatGone: 'Dieses Gespräch gibt es nicht mehr.',
    messageGone: 'Diese Nachricht gibt es nicht mehr.',
    folderGone: 'Diesen Ordner gibt es nicht mehr.',
    chatsUnusable: (reason) => `Die Gespräche können nicht gelesen oder gespeichert werden: ${reason}`,
    diskFull: 'Der Datenträger ist voll. Schaffe Platz, und versuche es noch einmal.',
    loginStart: (reason) => `Der Start bei der Anmeldung lässt sich hier nicht ändern: ${reason}`,
    noBrowser: (reason) => `Kein Browser ließ sich starten: ${reason}`,
    notSaved: (reason) => `Die Datei konnte nicht gespeichert werden: ${reason}`,
    portSilent: 'Dort antwortet nichts.',
    portForeign: 'Dort antwortet etwas anderes als Inglenook.',
  },
};
