; The installer for Windows. It puts Inglenook into the home of one person and needs no administrator;
; only the firewall rule does, and that is a choice.
;
; `cargo xtask bundle --windows` compiles it and defines
;   VERSION   of the program, as people read it       NUMBERS   the same as four numbers
;   PAYLOAD   folder of the files                      OUTPUT    the installer to write
;   ICON      of the program                           QUICK     where defined: packed fast, for trying out
;
; Without questions: `setup.exe /S [/AUTOSTART] [/FIREWALL] [/D=C:\folder]`, `uninstall.exe /S [/REMOVE-DATA]`. With
; `/MOVES` an installer of a later version brings the programs elsewhere.
; Exit status of `setup.exe` 0: done; 2: not done, and no file was changed; 3: not every file could be put in place,
; run it again. `uninstall.exe` goes on as a copy of itself, so its status says nothing.

Target amd64-unicode
ManifestDPIAware true
!ifdef QUICK
  SetCompressor zlib
!else
  SetCompressor /SOLID lzma
!endif
; The same files give the same installer.
SetDateSave off
AllowSkipFiles off

!include LogicLib.nsh
!include FileFunc.nsh
!include MUI2.nsh
!include Sections.nsh
!include TextFunc.nsh
!include WinVer.nsh

!define NAME "Inglenook"
!define UNINSTALL_KEY "Software\Microsoft\Windows\CurrentVersion\Uninstall\${NAME}"
; What is written there under the program's name, Windows starts at login. The settings of the window
; read and write the same value. The other key holds what a person chose in the Task Manager.
!define LOGIN_KEY "Software\Microsoft\Windows\CurrentVersion\Run"
!define LOGIN_CHOICE_KEY "Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
; Where Microsoft says that the version of WebView2 stands.
!define WEBVIEW2_CLIENT "Microsoft\EdgeUpdate\Clients\{F3017226-FE2A-4295-8BDF-00C3A9A7E4C5}"
!define WEBVIEW2_ADDRESS "https://developer.microsoft.com/microsoft-edge/webview2/consumer/"
; Below both folders for application data; as `directories` and Tauri choose them.
!define DATA_FOLDER "inglenook\data"
!define WINDOW_FOLDER "house.inglenook.Inglenook"
; Of `nook-store` (`keyring.rs`), as the keyring crate files it.
!define KEY_NAME "device key.Inglenook"
!define ABORTED 2
!define UNFINISHED 3
; Beside the program, what is about to take its place.
!define UNPACKED "inglenook-new"
; In milliseconds: longest wait for a node to leave, and for files that somebody holds; between two looks at those.
!define LEAVE_LIMIT 45000
!define LOOK 250
!define LOOKS 40

Name "${NAME}"
OutFile "${OUTPUT}"
RequestExecutionLevel user
InstallDir "$LOCALAPPDATA\Programs\${NAME}"
InstallDirRegKey HKCU "${UNINSTALL_KEY}" "InstallLocation"
BrandingText "${NAME} ${VERSION}"
VIProductVersion "${NUMBERS}"
VIAddVersionKey /LANG=0 "ProductName" "${NAME}"
VIAddVersionKey /LANG=0 "FileDescription" "${NAME}"
VIAddVersionKey /LANG=0 "FileVersion" "${VERSION}"
VIAddVersionKey /LANG=0 "ProductVersion" "${VERSION}"
VIAddVersionKey /LANG=0 "LegalCopyright" "Apache-2.0 or MIT"

!define MUI_ICON "${ICON}"
!define MUI_UNICON "${ICON}"
!define MUI_WELCOMEFINISHPAGE_BITMAP "side.bmp"
!define MUI_FINISHPAGE_RUN "$INSTDIR\inglenook.exe"
!insertmacro MUI_PAGE_COMPONENTS
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!define MUI_PAGE_CUSTOMFUNCTION_SHOW DoNotOfferWhatCannotRun
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_COMPONENTS
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"
!insertmacro MUI_LANGUAGE "German"
!include "texts.nsh"

; Where the programs lie that are to leave: in $INSTDIR, or where they were installed before.
Var Folder
; How what left is started again, as `nook down --say-again` says it: a program without its folder, and its
; words. Empty where nothing ran.
Var Again
; Whether the programs go on elsewhere: then what a person chose for the login stays.
Var Moves
; "yes" once a node without a window was started again.
Var NodeRuns

; Every file of the program, once: DO is a macro that takes its name.
!macro EachFile DO
  !insertmacro ${DO} "nook.exe"
  !insertmacro ${DO} "inglenook.exe"
  !insertmacro ${DO} "WebView2Loader.dll"
  !insertmacro ${DO} "READ ME.txt"
  !insertmacro ${DO} "LICENSE-APACHE.txt"
  !insertmacro ${DO} "LICENSE-MIT.txt"
  !insertmacro ${DO} "third-party-licences.txt"
!macroend

!macro Unpack FILE
  File "/oname=${UNPACKED}\${FILE}" "${PAYLOAD}\${FILE}"
!macroend

!macro PutInPlace FILE
  Delete "$INSTDIR\${FILE}"
  Rename "$INSTDIR\${UNPACKED}\${FILE}" "$INSTDIR\${FILE}"
!macroend

!macro Remove FILE
  Delete "$INSTDIR\${FILE}"
  Delete "$INSTDIR\${UNPACKED}\${FILE}"
!macroend

; What installing and removing share; UN is empty or `un.`.
!macro Shared UN
  ; Whether somebody holds the program on the stack open: "yes" or "no" onto the stack.
  Function ${UN}IsInUse
    Exch $0
    Push $1
    ${If} ${FileExists} "$0"
      ClearErrors
      FileOpen $1 "$0" a
      ${If} ${Errors}
        StrCpy $0 "yes"
      ${Else}
        FileClose $1
        StrCpy $0 "no"
      ${EndIf}
    ${Else}
      StrCpy $0 "no"
    ${EndIf}
    Pop $1
    Exch $0
  FunctionEnd

  ; The same of either of the two folders, for the program NAME on the stack.
  Function ${UN}IsInUseAnywhere
    Exch $2
    Push "$Folder\$2"
    Call ${UN}IsInUse
    Pop $3
    ${If} $3 == "no"
      Push "$INSTDIR\$2"
      Call ${UN}IsInUse
      Pop $3
    ${EndIf}
    Pop $2
    Push $3
  FunctionEnd

  ; Lets a program that runs leave in order, and waits for its end. A person may close what is left;
  ; without one, nothing is done.
  Function ${UN}LetItLeave
    StrCpy $Again ""
    Push "inglenook.exe"
    Call ${UN}IsInUseAnywhere
    Pop $0
    ${If} $0 == "yes"
      StrCpy $Again "inglenook.exe --hidden"
    ${EndIf}
    ${If} ${FileExists} "$Folder\nook.exe"
      DetailPrint "$(LEAVING)"
      nsExec::ExecToStack /TIMEOUT=${LEAVE_LIMIT} '"$Folder\nook.exe" down --say-again'
      Pop $0
      Pop $1
      ; It ends with 3 where no node runs, which is as good.
      ${If} $0 == 0
        ${${UN}TrimNewLines} "$1" $Again
      ${EndIf}
    ${EndIf}
    again:
    StrCpy $1 0
    ${Do}
      Push "inglenook.exe"
      Call ${UN}IsInUseAnywhere
      Pop $0
      ${If} $0 == "no"
        Push "nook.exe"
        Call ${UN}IsInUseAnywhere
        Pop $0
      ${EndIf}
      ${If} $0 == "no"
        Return
      ${EndIf}
      IntOp $1 $1 + 1
      ${If} $1 > ${LOOKS}
        ${ExitDo}
      ${EndIf}
      Sleep ${LOOK}
    ${Loop}
    MessageBox MB_RETRYCANCEL|MB_ICONEXCLAMATION "$(STILL_RUNS)" /SD IDCANCEL IDRETRY again
    ; Nothing was changed: what left goes on.
    Call ${UN}StartAgain
    SetErrorLevel ${ABORTED}
    Abort "$(STILL_RUNS)"
  FunctionEnd

  ; Starts what left, in $Folder. A node without a window gets a terminal, as small as possible: there
  ; a person ends it.
  Function ${UN}StartAgain
    StrCpy $0 $Again 9
    ${If} $0 == "nook.exe "
      StrCpy $0 $Again "" 9
      StrCpy $NodeRuns "yes"
      ExecShell "open" "$Folder\nook.exe" "$0" SW_SHOWMINIMIZED
    ${EndIf}
    StrCpy $0 $Again 13
    ${If} $0 == "inglenook.exe"
      StrCpy $0 $Again "" 13
      Exec '"$Folder\inglenook.exe"$0'
    ${EndIf}
    StrCpy $Again ""
  FunctionEnd
!macroend
!insertmacro Shared ""
!insertmacro Shared "un."

; The version of WebView2 onto the stack, empty where there is none.
Function VersionOfWebView2
  Push $0
  ReadRegStr $0 HKLM "SOFTWARE\WOW6432Node\${WEBVIEW2_CLIENT}" "pv"
  ${If} $0 == ""
  ${OrIf} $0 == "0.0.0.0"
    ReadRegStr $0 HKCU "Software\${WEBVIEW2_CLIENT}" "pv"
  ${EndIf}
  ${If} $0 == "0.0.0.0"
    StrCpy $0 ""
  ${EndIf}
  Exch $0
FunctionEnd

Section "${NAME}" PROGRAM
  SectionIn RO
  Call FindFolder
  Call LetItLeave
  ; All of it is unpacked before the first file changes: a full disk is found out here.
  SetOutPath "$INSTDIR"
  CreateDirectory "$INSTDIR\${UNPACKED}"
  !insertmacro EachFile Unpack
  ; An installation elsewhere would stay without a way to remove it. What it knows of the firewall is
  ; known here afterwards.
  ReadRegDWORD $2 HKCU "${UNINSTALL_KEY}" "FirewallRule"
  ${If} $Folder != $INSTDIR
    ExecWait '"$Folder\uninstall.exe" /S /MOVES _?=$Folder' $1
    ${If} $1 <> 0
      Call StartAgain
      SetErrorLevel ${ABORTED}
      Abort "$(STILL_RUNS)"
    ${EndIf}
    Delete "$Folder\uninstall.exe"
    RMDir "$Folder"
    StrCpy $Folder $INSTDIR
    ${If} $2 == 1
      WriteRegDWORD HKCU "${UNINSTALL_KEY}" "FirewallRule" 1
    ${EndIf}
  ${EndIf}
  ClearErrors
  !insertmacro EachFile PutInPlace
  ${If} ${Errors}
    ; What lies there now may be of two versions.
    StrCpy $Again ""
    MessageBox MB_OK|MB_ICONSTOP "$(NOT_WRITTEN)" /SD IDOK
    SetErrorLevel ${UNFINISHED}
    Abort "$(NOT_WRITTEN)"
  ${EndIf}
  RMDir "$INSTDIR\${UNPACKED}"
  WriteUninstaller "$INSTDIR\uninstall.exe"
  CreateShortcut "$SMPROGRAMS\${NAME}.lnk" "$INSTDIR\inglenook.exe"

  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayName" "${NAME}"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayIcon" "$INSTDIR\inglenook.exe"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "Publisher" "The Inglenook contributors"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "InstallLocation" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${UNINSTALL_KEY}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "NoModify" 1
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "NoRepair" 1
  ${GetSize} "$INSTDIR" "/S=0K /G=0" $0 $1 $2
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "EstimatedSize" $0
SectionEnd

Section /o "$(AT_LOGIN)" LOGIN
SectionEnd

Section /o "$(FIREWALL)" FIREWALL_RULE
  DetailPrint "$(FIREWALL)"
  ; By its whole path, and without what the person's registry tells each cmd to run (/d): nothing of
  ; theirs must run as an administrator.
  StrCpy $0 '"$SYSDIR\netsh.exe" advfirewall firewall delete rule name="${NAME}"'
  StrCpy $1 '"$SYSDIR\netsh.exe" advfirewall firewall add rule name="${NAME}" dir=in action=allow profile=private,domain'
  ExecShellWait "runas" "$SYSDIR\cmd.exe" '/d /c "$0 & $1 program="$INSTDIR\inglenook.exe" & $1 program="$INSTDIR\nook.exe""' SW_HIDE
  nsExec::Exec '"$SYSDIR\netsh.exe" advfirewall firewall show rule name="${NAME}"'
  Pop $0
  ${If} $0 == 0
    WriteRegDWORD HKCU "${UNINSTALL_KEY}" "FirewallRule" 1
  ${Else}
    MessageBox MB_OK|MB_ICONINFORMATION "$(NO_RULE)" /SD IDOK
  ${EndIf}
SectionEnd

Section "-Login and window"
  ; Also takes back what was chosen before; an upgrade begins with what holds now.
  ${If} ${SectionIsSelected} ${LOGIN}
    WriteRegStr HKCU "${LOGIN_KEY}" "${NAME}" '"$INSTDIR\inglenook.exe" --hidden'
  ${Else}
    DeleteRegValue HKCU "${LOGIN_KEY}" "${NAME}"
  ${EndIf}
  Call VersionOfWebView2
  Pop $0
  ${If} $0 == ""
    DetailPrint "$(NO_WEBVIEW2)"
    ${IfNot} ${Silent}
      MessageBox MB_YESNO|MB_ICONINFORMATION "$(NO_WEBVIEW2)$\r$\n$\r$\n$(OPEN_PAGE)" IDNO stays
      ExecShell "open" "${WEBVIEW2_ADDRESS}"
      stays:
    ${EndIf}
  ${EndIf}
  ; The tray app only where its window can be drawn; the last page offers it to a person.
  StrCpy $1 $Again 9
  ${If} $1 == "nook.exe "
    Call StartAgain
  ${ElseIf} $0 != ""
  ${AndIf} ${Silent}
    Call StartAgain
  ${EndIf}
  StrCpy $Again ""
SectionEnd

!insertmacro MUI_FUNCTION_DESCRIPTION_BEGIN
  !insertmacro MUI_DESCRIPTION_TEXT ${PROGRAM} "$(ABOUT_PROGRAM)"
  !insertmacro MUI_DESCRIPTION_TEXT ${LOGIN} "$(ABOUT_LOGIN)"
  !insertmacro MUI_DESCRIPTION_TEXT ${FIREWALL_RULE} "$(ABOUT_FIREWALL)"
!insertmacro MUI_FUNCTION_DESCRIPTION_END

; Where the programs lie now: this installer may bring them somewhere else.
Function FindFolder
  ReadRegStr $Folder HKCU "${UNINSTALL_KEY}" "InstallLocation"
  ${If} $Folder == ""
  ${OrIfNot} ${FileExists} "$Folder\uninstall.exe"
    StrCpy $Folder $INSTDIR
  ${EndIf}
FunctionEnd

; A file could not be unpacked, and nothing was changed. Not called without questions.
Function .onInstFailed
  Call StartAgain
FunctionEnd

Function .onInit
  ${IfNot} ${AtLeastWin10}
    MessageBox MB_OK|MB_ICONSTOP "$(TOO_OLD)" /SD IDOK
    SetErrorLevel ${ABORTED}
    Quit
  ${EndIf}
  ; What holds now, and what the command line asks for.
  ReadRegStr $0 HKCU "${LOGIN_KEY}" "${NAME}"
  ${GetParameters} $1
  ClearErrors
  ${GetOptions} $1 "/AUTOSTART" $2
  ${IfNot} ${Errors}
  ${OrIf} $0 != ""
    !insertmacro SelectSection ${LOGIN}
  ${EndIf}
  ClearErrors
  ${GetOptions} $1 "/FIREWALL" $2
  ${IfNot} ${Errors}
    !insertmacro SelectSection ${FIREWALL_RULE}
  ${EndIf}
FunctionEnd

; The box that starts the program is not ticked where its window could not be drawn, or where a node
; without a window was started again, beside which the program would only say that one runs.
Function DoNotOfferWhatCannotRun
  Call VersionOfWebView2
  Pop $0
  ${If} $0 == ""
  ${OrIf} $NodeRuns == "yes"
    SendMessage $mui.FinishPage.Run ${BM_SETCHECK} ${BST_UNCHECKED} 0
  ${EndIf}
FunctionEnd

Section "un.${NAME}" un.PROGRAM
  SectionIn RO
  Call un.LetItLeave
  ReadRegDWORD $0 HKCU "${UNINSTALL_KEY}" "FirewallRule"
  ${If} $0 == 1
    MessageBox MB_YESNO|MB_ICONQUESTION "$(REMOVE_RULE)" /SD IDNO IDNO rule_stays
    ExecShellWait "runas" "$SYSDIR\cmd.exe" '/d /c ""$SYSDIR\netsh.exe" advfirewall firewall delete rule name="${NAME}""' SW_HIDE
    rule_stays:
  ${EndIf}
  ; What others put beside the program is theirs: no folder goes that holds something else.
  !insertmacro EachFile Remove
  Delete "$INSTDIR\uninstall.exe"
  RMDir "$INSTDIR\${UNPACKED}"
  RMDir "$INSTDIR"
  Delete "$SMPROGRAMS\${NAME}.lnk"
  ${If} $Moves != "yes"
    DeleteRegValue HKCU "${LOGIN_KEY}" "${NAME}"
    DeleteRegValue HKCU "${LOGIN_CHOICE_KEY}" "${NAME}"
  ${EndIf}
  DeleteRegKey HKCU "${UNINSTALL_KEY}"
SectionEnd

Section /o "un.$(DATA)" un.DATA
  Push "$LOCALAPPDATA\${DATA_FOLDER}"
  Call un.DeleteFolder
  RMDir "$LOCALAPPDATA\inglenook"
  Push "$LOCALAPPDATA\${WINDOW_FOLDER}"
  Call un.DeleteFolder
  Push "$APPDATA\${WINDOW_FOLDER}"
  Call un.DeleteFolder
  ; 1: a password that programs keep, the only kind that Inglenook writes.
  System::Call 'advapi32::CredDeleteW(w "${KEY_NAME}", i 1, i 0)'
SectionEnd

!insertmacro MUI_UNFUNCTION_DESCRIPTION_BEGIN
  !insertmacro MUI_DESCRIPTION_TEXT ${un.PROGRAM} "$(ABOUT_REMOVAL)"
  !insertmacro MUI_DESCRIPTION_TEXT ${un.DATA} "$(ABOUT_DATA)"
!insertmacro MUI_UNFUNCTION_DESCRIPTION_END

Function un.onInit
  StrCpy $Folder $INSTDIR
  ${GetParameters} $0
  ClearErrors
  ${GetOptions} $0 "/MOVES" $1
  ${IfNot} ${Errors}
    StrCpy $Moves "yes"
  ${EndIf}
  ClearErrors
  ${GetOptions} $0 "/REMOVE-DATA" $1
  ${IfNot} ${Errors}
    !insertmacro SelectSection ${un.DATA}
  ${EndIf}
FunctionEnd

; Deletes the folder on the stack with all that is in it. Of a link to another folder, be it this one
; or in it, only the link goes: `RMDir /r` would empty what it leads to, such as a folder of models on
; another disk.
Function un.DeleteFolder
  Exch $0
  Push $1
  Push $2
  Push $3
  System::Call 'kernel32::GetFileAttributesW(w "$0") i .r3'
  IntOp $3 $3 & 0x400
  ${If} $3 <> 0 ; a link, or nothing at all
    RMDir "$0"
    Goto done
  ${EndIf}
  FindFirst $1 $2 "$0\*.*"
  ${DoWhile} $2 != ""
    ${If} $2 != "."
    ${AndIf} $2 != ".."
      System::Call 'kernel32::GetFileAttributesW(w "$0\$2") i .r3'
      IntOp $3 $3 & 0x410
      ${If} $3 = 0x10 ; a folder
        Push "$0\$2"
        Call un.DeleteFolder
      ${ElseIf} $3 = 0x410 ; a link to one
        RMDir "$0\$2"
      ${Else}
        Delete "$0\$2"
      ${EndIf}
    ${EndIf}
    FindNext $1 $2
  ${Loop}
  FindClose $1
  RMDir "$0"
  done:
  Pop $3
  Pop $2
  Pop $1
  Pop $0
FunctionEnd
