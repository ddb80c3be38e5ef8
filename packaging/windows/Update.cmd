@echo off
rem Puts this version over an older one that was unpacked from an archive, and starts again what ran.
rem Drop the folder of the older one on this file, or:  Update.cmd "C:\folder of the older one"
rem Ends with 0 when it is done, with 2 when nothing was changed, and with 3 when not every file is in place.
setlocal
set "NEW=%~dp0"
set "OLD=%~1"
if "%OLD%"=="" goto usage
if exist "%OLD%\uninstall.exe" goto installed
if not exist "%OLD%\nook.exe" goto usage
if not exist "%OLD%\READ ME.txt" goto usage
rem All of it lies there before the first file changes: a full disk is found out here.
set "BAD="
call :each copies
if defined BAD goto room
set "AGAIN="
set "SAID=%OLD%\again.txt"
"%OLD%\nook.exe" down --say-again >"%SAID%" 2>nul
set /p AGAIN=<"%SAID%"
del "%SAID%"
copy /b /y "%OLD%\inglenook.exe" "%OLD%\inglenook.exe.old" >nul
call :place inglenook.exe
if defined BAD goto runs
call :place nook.exe
if defined BAD goto back
del "%OLD%\inglenook.exe.old"
call :each place
if defined BAD goto mixed
call :again
echo Done.
exit /b 0

:each
for %%F in (nook.exe inglenook.exe WebView2Loader.dll "READ ME.txt" LICENSE-APACHE.txt LICENSE-MIT.txt third-party-licences.txt Update.cmd) do call :%1 %%F
exit /b 0

:copies
copy /b /y "%NEW%%~1" "%OLD%\%~1.new" >nul
if errorlevel 1 set "BAD=1"
exit /b 0

rem A program that leaves takes a moment; no program that runs is written over.
:place
if not exist "%OLD%\%~1.new" exit /b 0
set TRIES=0
:try
move /y "%OLD%\%~1.new" "%OLD%\%~1" >nul 2>nul
if not exist "%OLD%\%~1.new" exit /b 0
set /a TRIES=TRIES+1
if %TRIES% geq 20 goto stuck
ping -n 2 127.0.0.1 >nul
goto try
:stuck
set "BAD=1"
exit /b 0

:again
if not defined AGAIN exit /b 0
for /f "tokens=1,*" %%A in ("%AGAIN%") do start "Inglenook" /min "%OLD%\%%A" %%B
exit /b 0

:clear
if exist "%OLD%\%~1.new" del "%OLD%\%~1.new"
exit /b 0

:usage
echo Drop the folder of the older Inglenook on this file, the one with nook.exe in it.
exit /b 2

:installed
echo That one came with the installer: open the new installer instead.
exit /b 2

:room
call :each clear
echo The new files do not fit there, or may not be written. Nothing was changed.
exit /b 2

:back
move /y "%OLD%\inglenook.exe.old" "%OLD%\inglenook.exe" >nul
:runs
if exist "%OLD%\inglenook.exe.old" del "%OLD%\inglenook.exe.old"
call :each clear
call :again
echo Inglenook still runs there: quit it in the tray, close terminals in which nook runs, and try again. Nothing was changed.
exit /b 2

:mixed
echo Not every file could be put in place. Close what runs there, and drop the folder on this file again.
exit /b 3
