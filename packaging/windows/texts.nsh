; What the installer says, in English and German.

!macro Text ID ENGLISH GERMAN
  LangString ${ID} ${LANG_ENGLISH} "${ENGLISH}"
  LangString ${ID} ${LANG_GERMAN} "${GERMAN}"
!macroend

!insertmacro Text ABOUT_PROGRAM \
  "The tray app, the command nook, and an entry in the start menu." \
  "Das Programm mit Symbol in der Taskleiste, der Befehl nook und ein Eintrag im Startmenü."
!insertmacro Text AT_LOGIN "Start when I log in" "Beim Anmelden starten"
!insertmacro Text ABOUT_LOGIN \
  "Inglenook waits in the tray from then on. The settings of its window switch this on and off too." \
  "Inglenook wartet dann in der Taskleiste. Auch die Einstellungen im Fenster schalten das ein und aus."
!insertmacro Text FIREWALL "Rule in the firewall" "Regel in der Firewall"
!insertmacro Text ABOUT_FIREWALL \
  "Lets computers of private networks reach this one. An administrator has to agree. Without it, Windows asks at the \
  first start; if nobody agrees, this computer still reaches others." \
  "Lässt Computer aus privaten Netzen diesen erreichen. Ein Administrator muss zustimmen. Ohne sie fragt Windows beim \
  ersten Start; sagt niemand ja, erreicht dieser Computer trotzdem andere."
!insertmacro Text LEAVING "Inglenook leaves in order, if it runs" "Falls Inglenook läuft, beendet es sich geordnet"
!insertmacro Text STILL_RUNS \
  "Inglenook still runs and its files cannot be changed. Quit it in the tray, close terminals in which nook runs, \
  and try again. No file was changed." \
  "Inglenook läuft noch, darum lassen sich seine Dateien nicht ändern. Bitte in der Taskleiste beenden, Terminals \
  schließen, in denen nook läuft, und noch einmal versuchen. Keine Datei wurde geändert."
!insertmacro Text NOT_WRITTEN \
  "Not every file could be put in place. Run this installer again." \
  "Nicht jede Datei ließ sich ablegen. Bitte dieses Programm noch einmal starten."
!insertmacro Text NO_WEBVIEW2 \
  "The window of Inglenook needs Microsoft Edge WebView2, and this computer does not have it. Microsoft gives it \
  for nothing: ${WEBVIEW2_ADDRESS}" \
  "Das Fenster von Inglenook braucht Microsoft Edge WebView2, und das fehlt auf diesem Computer. Von Microsoft \
  gibt es das kostenlos: ${WEBVIEW2_ADDRESS}"
!insertmacro Text OPEN_PAGE "Open that page now?" "Diese Seite jetzt öffnen?"
!insertmacro Text NO_RULE \
  "No rule was added to the firewall: no administrator agreed. Inglenook is installed all the same." \
  "In der Firewall wurde keine Regel angelegt: Kein Administrator hat zugestimmt. Installiert ist Inglenook trotzdem."
!insertmacro Text TOO_OLD "Inglenook needs Windows 10 or newer." "Inglenook braucht Windows 10 oder neuer."
!insertmacro Text REMOVE_RULE \
  "Remove the rule in the firewall too? Windows asks an administrator. A rule that stays is for programs of this name in this folder." \
  "Auch die Regel in der Firewall entfernen? Windows fragt einen Administrator. Bleibt sie, gilt sie für Programme dieses Namens in diesem Ordner."
!insertmacro Text ABOUT_REMOVAL \
  "The program, its entry in the start menu and its start at login." \
  "Das Programm, sein Eintrag im Startmenü und sein Start beim Anmelden."
!insertmacro Text DATA "Models, chats, settings" "Modelle, Gespräche, Einstellungen"
!insertmacro Text ABOUT_DATA \
  "Everything that Inglenook keeps on this computer, with the key that makes it known to others: they must be paired \
  again. Models in a folder that you chose yourself stay." \
  "Alles, was Inglenook auf diesem Computer aufbewahrt, auch der Schlüssel, an dem ihn andere erkennen: Sie müssen neu \
  gekoppelt werden. Modelle in einem selbst gewählten Ordner bleiben."
